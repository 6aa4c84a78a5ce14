! calls.c in Fortran: four eligible sums, exact or lossy. Compiled with -Df77 (mpif.h), -Df90 (use mpi) or -Df08
! (use mpi_f08).
program calls
#if defined(f08)
  use mpi_f08
#elif defined(f90)
  use mpi
#endif
  implicit none
#if defined(f77)
  include 'mpif.h'
#endif
  integer, parameter :: n = 40000
  real, save :: x(n), y(n)
  double precision, save :: xd(n), yd(n)
  integer :: i, ranks, code, wrong
  logical :: exact
  character(len=16) :: mode
  call get_command_argument(1, mode)
  exact = mode /= 'lossy'
  wrong = 0
  call mpi_init(code)
  call mpi_comm_size(MPI_COMM_WORLD, ranks, code)
  do i = 1, n
    x(i) = real(mod(i, 7))
  end do
  xd = x
  call mpi_allreduce(x, y, n, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, code)
  if (all(abs(y - ranks * x) < 1e-3) .neqv. exact) wrong = wrong + 1
  y = x
  call mpi_allreduce(MPI_IN_PLACE, y, n, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, code)
  if (all(abs(y - ranks * x) < 1e-3) .neqv. exact) wrong = wrong + 1
  call mpi_allreduce(xd, yd, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, code)
  if (all(abs(yd - ranks * xd) < 1e-3) .neqv. exact) wrong = wrong + 1
  yd = xd
  call mpi_allreduce(MPI_IN_PLACE, yd, n, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, code)
  if (all(abs(yd - ranks * xd) < 1e-3) .neqv. exact) wrong = wrong + 1
  call mpi_finalize(code)
  if (wrong > 0) print *, wrong, 'of 4 sums are wrong'
  if (wrong > 0) stop 1
end program calls
