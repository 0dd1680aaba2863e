"""What the tests of other stacks submit: what a user of each writes, as its how-to page shows it."""

import os
import time
from pathlib import Path
from typing import Any

import helpers


def jax_sum() -> dict[str, Any]:
    """Add over all processes, each with one CPU device."""
    import jax

    run = helpers.current_run()
    address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
    jax.distributed.initialize(address, num_processes=run.world_size, process_id=run.rank)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    mesh = jax.sharding.Mesh(jax.devices(), "all")
    rows = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("all"))
    own = jax.numpy.full((1,), float(run.rank + 1))
    values = jax.make_array_from_process_local_data(rows, own, (run.world_size,))
    total = jax.jit(jax.numpy.sum)(values)
    seen = (jax.process_index(), jax.process_count(), jax.device_count(), float(total), os.uname().nodename)
    jax.distributed.shutdown()
    return dict(zip(("index", "count", "devices", "total", "node"), seen, strict=True))


def tensorflow_sum() -> dict[str, Any]:
    """Add over all workers."""
    helpers.export_tf_config()
    import tensorflow as tf

    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    with strategy.scope():
        context = tf.distribute.get_replica_context
        total = strategy.run(
            lambda: context().all_reduce("sum", tf.cast(context().replica_id_in_sync_group + 1, tf.float32))
        )
    resolver = strategy.cluster_resolver
    return {
        "replicas": strategy.num_replicas_in_sync,
        "index": resolver.task_id,
        "workers": len(resolver.cluster_spec().as_dict()["worker"]),
        "total": float(strategy.reduce("mean", total, axis=None)),
    }


def accelerate_sum() -> dict[str, Any]:
    """Add over all processes, and train a step of a model that is given to all."""
    import torch
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model, optimizer = accelerator.prepare(model, optimizer)
    loss = model(torch.full((1, 1), float(accelerator.process_index))).sum()
    accelerator.backward(loss)
    optimizer.step()
    gradient = float(accelerator.unwrap_model(model).weight.grad)
    total = accelerator.reduce(torch.tensor(float(accelerator.process_index + 1)), "sum")
    accelerator.end_training()
    return {
        "index": accelerator.process_index,
        "local": accelerator.local_process_index,
        "count": accelerator.num_processes,
        "gradient": gradient,
        "total": float(total),
    }


def lightning_fit(epochs: int, nodes: int, devices: int, folder: str = "") -> dict[str, Any]:
    """Train; in the first attempt, where a folder is given, until it is asked to stop."""
    import lightning
    import torch

    class Model(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def training_step(self, batch: Any) -> Any:
            run = helpers.current_run()
            if folder and run.attempt == 0 and self.current_epoch == 2:
                Path(folder, f"waits-{run.rank}").touch()
                while not run.stop_requested():
                    time.sleep(0.05)
            return self.layer(batch[0]).sum()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    run = helpers.current_run()
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(4, 1)), batch_size=1)
    checkpoint = lightning.pytorch.callbacks.ModelCheckpoint(f"{run.folder}/lightning", save_last=True)
    trainer = lightning.Trainer(
        accelerator="cpu", devices=devices, num_nodes=nodes, max_epochs=epochs, logger=False, callbacks=[checkpoint],
        enable_progress_bar=False, enable_model_summary=False, log_every_n_steps=1,
    )  # fmt: skip
    trainer.fit(Model(), loader, ckpt_path="last")
    return {
        "rank": trainer.global_rank,
        "world": trainer.world_size,
        "local": trainer.local_rank,
        "epochs": trainer.current_epoch,
        "attempt": run.attempt,
        "environment": type(trainer._accelerator_connector.cluster_environment).__name__,
    }
