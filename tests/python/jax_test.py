"""mpi_quant.jax: sums inside functions that jit compiles, on 1 to 3 ranks."""
import unittest

import jax
import jax.numpy as jnp
import numpy as np
from common import WORLD, OnAllRanks, exact_sum, main, relative_error, vector

import mpi_quant as mq

compresses = unittest.skipUnless(WORLD.size > 1, "one rank has nothing to send")


def refused(test, text, function, x):
    """A compiled function raises jax's error with this text of the library. jax may raise it again at the barrier, which ends the call."""
    with test.assertRaisesRegex(jax.errors.JaxRuntimeError, text):
        jax.block_until_ready(jax.jit(function)(x))
    try:
        jax.effects_barrier()
    except jax.errors.JaxRuntimeError as error:
        test.assertRegex(str(error), text)


class Sums(OnAllRanks):
    def test_sums_in_compiled_functions(self):
        for dtype, most in ((jnp.float32, 0.01), (jnp.bfloat16, 0.02), (jnp.float16, 0.01)):
            for shape in ((), (1000,), (40, 30), (1 << 21,)):
                with self.subTest(dtype=dtype, shape=shape):
                    count = int(np.prod(shape))
                    x = jnp.asarray(vector(count).reshape(shape), dtype)
                    total = jax.jit(lambda x: mq.jax.allreduce(2 * x, method="bf16") / 2)(x)
                    self.assertEqual((total.dtype, total.shape), (dtype, shape))
                    self.assertLess(relative_error(np.asarray(total, np.float64).ravel(), exact_sum(count)), most)
                    self.assert_same_bits(np.asarray(total))

    def test_outside_of_compiled_functions(self):
        x = vector(5000)
        total = mq.jax.allreduce(x)  # of numpy, too
        self.assertIsInstance(total, jax.Array)
        np.testing.assert_allclose(total, exact_sum(5000), rtol=1e-4, atol=1e-5)

    def test_the_mean(self):
        x = jnp.asarray(vector(5000))
        for method, most in (("mpi", 1e-5), ("int8", 0.02)):
            mean = jax.jit(lambda x: mq.jax.allreduce(x, method=method, op="avg"))(x)
            self.assertLess(relative_error(mean, exact_sum(5000) / WORLD.size), most)
        refused(self, 'info mpiq_op: "median" is neither sum nor avg', lambda x: mq.jax.allreduce(x, op="median"), x)

    @compresses
    def test_what_a_call_leaves_out_comes_with_the_next(self):
        x = jnp.asarray(vector(50_000))
        step = jax.jit(lambda x: mq.jax.allreduce(x, method="onebit", key="of jax"))
        single = relative_error(step(x), exact_sum(50_000))
        mean = sum(np.asarray(step(x), np.float64) for _ in range(40)) / 40
        self.assertLess(relative_error(mean, exact_sum(50_000)), single / 4)
        self.assertIn("of jax", mq.residuals())
        mq.residuals().reset("of jax")

    @compresses
    def test_calls_run_in_the_order_of_the_program(self):
        """Sums whose results nobody uses, of other lengths: out of order they would be calls that differ."""
        @jax.jit
        def many(x):
            for count in range(100, 1100, 100):
                mq.jax.allreduce(x[:count], method="int8")
            return mq.jax.allreduce(x)
        before = mq.stats().calls
        total = many(jnp.asarray(vector(2000)))
        np.testing.assert_allclose(total, exact_sum(2000), rtol=1e-4, atol=1e-5)
        self.assertEqual(mq.stats().calls - before, 11)

    @compresses
    def test_options_and_communicators_are_those_of_the_trace(self):
        x, own = jnp.asarray(vector(40_000)), WORLD.Dup()
        function = jax.jit(lambda x: mq.jax.allreduce(x, comm=own))
        with mq.options(method="int8"):
            first = function(x)
        np.testing.assert_array_equal(function(x), first)
        self.assertGreater(relative_error(first, exact_sum(40_000)), 1e-4)
        self.assertEqual(mq.stats(own).compressed_calls, 2)
        own.Free()

    def test_training(self):
        """A linear model whose gradients are summed inside the compiled step."""
        truth = vector(300 * 16, 0).reshape(300, 16)
        x = jnp.asarray(vector(256 * 300).reshape(256, 300))
        y = x @ truth

        @jax.jit
        def step(w):
            loss, gradient = jax.value_and_grad(lambda w: jnp.mean((x @ w - y) ** 2))(w)
            return w - mq.jax.allreduce(gradient, method="onebit", key="w", op="avg"), loss
        w, losses = jnp.zeros((300, 16)), []
        for _ in range(60):
            w, loss = step(w)
            losses.append(float(loss))
        self.assertLess(losses[-1], 0.2 * losses[0])
        self.assert_same_bits(np.asarray(w))
        mq.residuals().reset()


class Errors(OnAllRanks):
    def test_elements_that_cannot_be_summed(self):
        with self.assertRaisesRegex(TypeError, "x has elements of type int32: one of float32, "):
            jax.jit(mq.jax.allreduce)(jnp.arange(10))

    def test_method_and_error_are_one_too_many(self):
        with self.assertRaisesRegex(TypeError, "method and error are given"):
            jax.jit(lambda x: mq.jax.allreduce(x, method="int8", error=0.1))(jnp.ones(10))

    @compresses
    def test_jax_raises_the_text_of_the_library_on_all_ranks(self):
        method = "onebit" if WORLD.rank else "int8"
        refused(self, "the ranks' calls differ; rank 0: ", lambda x: mq.jax.allreduce(x, method=method), jnp.ones(40_000))
        total = jax.jit(mq.jax.allreduce)(jnp.ones(10))  # the next call is made
        np.testing.assert_array_equal(total, np.full(10, WORLD.size))


if __name__ == "__main__":
    main()
