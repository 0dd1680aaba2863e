"""The processes that train together: how they meet, what they tell each other, what a model is wrapped in."""
