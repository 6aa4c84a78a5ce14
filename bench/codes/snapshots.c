/* A program of PETSc for scripts/codes: heat in a plate, step by step, each by conjugate gradients. Then the
 * main patterns of all steps (proper orthogonal decomposition), by the matrix of the snapshots' dot products.
 * Build: mpicc snapshots.c -o snapshots $(pkg-config --cflags --libs petsc) -lm */
#include <math.h>
#include <petscksp.h>

enum { kSide = 40, kSteps = 96 };
static const double kRate = 10; /* diffusion of a step, in cells */

/* What one step solves: x - kRate * laplacian(x) = the field before. */
static PetscErrorCode make_operator(Mat* out) {
  PetscInt begin, end;
  PetscFunctionBeginUser;
  PetscCall(MatCreateAIJ(PETSC_COMM_WORLD, PETSC_DECIDE, PETSC_DECIDE, kSide * kSide, kSide * kSide, 5, NULL,
                         2, NULL, out));
  PetscCall(MatGetOwnershipRange(*out, &begin, &end));
  for (PetscInt i = begin; i < end; ++i) {
    const PetscInt x = i % kSide, y = i / kSide;
    PetscCall(MatSetValue(*out, i, i, 1 + 4 * kRate, INSERT_VALUES));
    if (x > 0) PetscCall(MatSetValue(*out, i, i - 1, -kRate, INSERT_VALUES));
    if (x < kSide - 1) PetscCall(MatSetValue(*out, i, i + 1, -kRate, INSERT_VALUES));
    if (y > 0) PetscCall(MatSetValue(*out, i, i - kSide, -kRate, INSERT_VALUES));
    if (y < kSide - 1) PetscCall(MatSetValue(*out, i, i + kSide, -kRate, INSERT_VALUES));
  }
  PetscCall(MatAssemblyBegin(*out, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(*out, MAT_FINAL_ASSEMBLY));
  PetscFunctionReturn(0);
}

/* Two flames that move around the plate heat it in every step. */
static PetscErrorCode heat(Vec field, int step) {
  PetscInt begin, end;
  PetscFunctionBeginUser;
  PetscCall(VecGetOwnershipRange(field, &begin, &end));
  for (int flame = 1; flame <= 2; ++flame) {
    const PetscInt x = (PetscInt)(kSide * (0.5 + 0.3 * cos(0.11 * flame * step))),
                   y = (PetscInt)(kSide * (0.5 + 0.3 * sin(0.07 * flame * step))), i = y * kSide + x;
    if (i >= begin && i < end) PetscCall(VecSetValue(field, i, 100, ADD_VALUES));
  }
  PetscCall(VecAssemblyBegin(field));
  PetscCall(VecAssemblyEnd(field));
  PetscFunctionReturn(0);
}

/* Fills a column of `snapshots` with the field after each step. Prints iterations and the last residual. */
static PetscErrorCode simulate(Mat snapshots) {
  Mat a;
  Vec field, next, column;
  KSP solver;
  PetscInt iterations, all = 0;
  PetscReal residual;
  PetscFunctionBeginUser;
  PetscCall(make_operator(&a));
  PetscCall(MatCreateVecs(a, &field, &next));
  PetscCall(KSPCreate(PETSC_COMM_WORLD, &solver));
  PetscCall(KSPSetOperators(solver, a, a));
  PetscCall(KSPSetType(solver, KSPCG));
  PetscCall(KSPSetTolerances(solver, 1e-10, PETSC_DEFAULT, PETSC_DEFAULT, PETSC_DEFAULT));
  PetscCall(KSPSetFromOptions(solver));
  for (int step = 0; step < kSteps; ++step) {
    PetscCall(heat(field, step));
    PetscCall(KSPSolve(solver, field, next));
    PetscCall(KSPGetIterationNumber(solver, &iterations));
    all += iterations;
    PetscCall(VecCopy(next, field));
    PetscCall(MatDenseGetColumnVecWrite(snapshots, step, &column));
    PetscCall(VecCopy(field, column));
    PetscCall(MatDenseRestoreColumnVecWrite(snapshots, step, &column));
  }
  PetscCall(KSPGetResidualNorm(solver, &residual));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "iterations %d\nresidual %.12e\n", (int)all, residual));
  PetscCall(KSPDestroy(&solver));
  PetscCall(VecDestroy(&field));
  PetscCall(VecDestroy(&next));
  PetscCall(MatDestroy(&a));
  PetscFunctionReturn(0);
}

/* Prints the greatest eigenvalue of the dot products, their trace (the energy), and its residual. */
static PetscErrorCode analyse(Mat snapshots) {
  Mat products;
  Vec v, w;
  PetscReal value = 0, norm;
  PetscScalar energy;
  PetscFunctionBeginUser;
  PetscCall(MatTransposeMatMult(snapshots, snapshots, MAT_INITIAL_MATRIX, PETSC_DEFAULT, &products));
  PetscCall(MatCreateVecs(products, &v, &w));
  PetscCall(VecSet(v, 1 / sqrt(kSteps)));
  for (int k = 0; k < 60; ++k) {
    PetscCall(MatMult(products, v, w));
    PetscCall(VecNorm(w, NORM_2, &value));
    PetscCall(VecCopy(w, v));
    PetscCall(VecScale(v, 1 / value));
  }
  PetscCall(MatMult(products, v, w));
  PetscCall(VecAXPY(w, -value, v));
  PetscCall(VecNorm(w, NORM_2, &norm));
  PetscCall(MatGetTrace(products, &energy));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "eigenvalue %.12e\nenergy %.12e\neigenresidual %.3e\n", value,
                        energy, norm / value));
  PetscCall(MatDestroy(&products));
  PetscCall(VecDestroy(&v));
  PetscCall(VecDestroy(&w));
  PetscFunctionReturn(0);
}

int main(int argc, char** argv) {
  Mat snapshots;
  PetscFunctionBeginUser;
  PetscCall(PetscInitialize(&argc, &argv, NULL, NULL));
  PetscCall(
      MatCreateDense(PETSC_COMM_WORLD, PETSC_DECIDE, PETSC_DECIDE, kSide * kSide, kSteps, NULL, &snapshots));
  PetscCall(simulate(snapshots));
  PetscCall(MatAssemblyBegin(snapshots, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(snapshots, MAT_FINAL_ASSEMBLY));
  PetscCall(analyse(snapshots));
  PetscCall(MatDestroy(&snapshots));
  return PetscFinalize();
}
