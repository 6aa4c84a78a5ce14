! A Fortran program with a plain MPI_Allreduce, which the preload library compresses.
! Build: mpifort fortran.f90 -o fortran
! Run:   mpiexec -n 2 mpiq-run --policy '64K-: bf16' --report - ./fortran
! SPDX-License-Identifier: Apache-2.0
program example
  use mpi
  implicit none
  integer, parameter :: n = 100000
  real :: total(n), of_rank_0(n)
  double precision :: exact(n), error
  integer :: i, r, rank, ranks, code
  logical :: same

  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, code)
  total = [(value(i, rank), i = 1, n)]
  call MPI_Allreduce(MPI_IN_PLACE, total, n, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, code)

  ! The result is close to the sum, and has the same bits on all ranks.
  exact = 0
  do r = 0, ranks - 1
    exact = exact + [(dble(value(i, r)), i = 1, n)]
  end do
  error = sqrt(sum((total - exact)**2) / sum(exact**2))
  of_rank_0 = total
  call MPI_Bcast(of_rank_0, n, MPI_REAL, 0, MPI_COMM_WORLD, code)
  same = all(transfer(of_rank_0, [0]) == transfer(total, [0]))
  if (rank == 0) print '(a, es9.2)', 'relative error of the sum: ', error
  call MPI_Finalize(code)
  if (.not. same) stop 1
  if (.not. error < 0.01) stop 2

contains

  real function value(element, of)
    integer, intent(in) :: element, of
    value = sin(0.1 * real(element)) + 0.5 * real(of)
  end function value
end program example
