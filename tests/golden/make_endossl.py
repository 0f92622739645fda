"""Write endossl_flax.msgpack and endossl_flax.npz: a tiny network of EndoSSL's layout, made and run by Flax itself.

Needs jax and flax, which the project does not: python make_endossl.py FOLDER
"""

import sys
from pathlib import Path

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from flax import serialization

WIDTH, HEADS, HIDDEN, DEPTH, PATCH_PX, GRID = 24, 3, 48, 2, 4, 3


class ToTokenSequence(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Conv(WIDTH, (PATCH_PX, PATCH_PX), (PATCH_PX, PATCH_PX), "VALID", name="embedding")(x)
        x = x + self.param("posembed_input", nn.initializers.normal(0.5), (1, GRID, GRID, WIDTH))
        cls = self.param("cls", nn.initializers.normal(0.5), (1, 1, WIDTH))
        return jnp.concatenate([jnp.tile(cls, (len(x), 1, 1)), x.reshape(len(x), -1, WIDTH)], axis=1)


class MlpBlock(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.gelu(nn.Dense(HIDDEN)(x))  # Dense_0
        return nn.Dense(WIDTH)(x)  # Dense_1


class Block(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = x + nn.MultiHeadDotProductAttention(HEADS)(nn.LayerNorm()(x))
        return x + MlpBlock()(nn.LayerNorm()(x))


class Network(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = ToTokenSequence()(x)
        for number in range(DEPTH):
            x = Block(name=f"encoderblock_{number}")(x)
        return nn.LayerNorm(name="encoder_norm")(x)


def random_weights(network, images, seed):
    """Flax starts biases at 0 and scales at 1, which would hide a mistake in them: noise on everything."""
    params = network.init(jax.random.key(seed), images)["params"]
    noise = iter(jax.random.split(jax.random.key(seed + 10), len(jax.tree.leaves(params))))
    return jax.tree.map(lambda leaf: leaf + 0.1 * jax.random.normal(next(noise), leaf.shape), params)


def main(folder: Path) -> None:
    network = Network()
    images = np.random.default_rng(0).integers(0, 256, (2, GRID * PATCH_PX, GRID * PATCH_PX, 3)).astype(np.float32)
    student, teacher = (random_weights(network, images, seed) for seed in (1, 2))
    state = {"global_step": 7, "student_weights": student, "teacher_weights": teacher, "rng": jnp.zeros(2, jnp.uint32)}
    (folder / "endossl_flax.msgpack").write_bytes(serialization.to_bytes(state))
    tokens = network.apply({"params": teacher}, images)
    np.savez(folder / "endossl_flax.npz", images=images, cls=np.asarray(tokens[:, 0]))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
