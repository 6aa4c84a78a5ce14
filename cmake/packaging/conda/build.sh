#!/usr/bin/env bash
# What conda's tools run in the source tree. They set PREFIX and CMAKE_ARGS.
# Copyright The mpi_quant authors
# SPDX-License-Identifier: Apache-2.0
set -euo pipefail
# shellcheck disable=SC2086  # words
cmake -S . -B build/conda -G Ninja ${CMAKE_ARGS:-} -D CMAKE_BUILD_TYPE=Release -D CMAKE_INSTALL_PREFIX="$PREFIX" -D CMAKE_INSTALL_LIBDIR=lib \
  -D MPIQ_BUILD_TESTS=OFF -D MPIQ_BUILD_BENCH=ON -D MPIQ_CUDA=OFF -D MPIQ_NCCL=OFF -D MPIQ_PAPI=OFF \
  -D CMAKE_DISABLE_FIND_PACKAGE_BLAS=ON  # else a BLAS of the system is found, and mpiq-train is built
cmake --build build/conda
cmake --install build/conda
