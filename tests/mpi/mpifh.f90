! SPDX-License-Identifier: GPL-2.0-only
! Compute sums out of place, in place and without blocking. Rank 0 prints the sums.
program sums
  implicit none
  include 'mpif.h'
  integer :: error, rank, request
  real :: x, total, later
  double precision :: y(3)

  call mpi_init(error)
  call mpi_comm_rank(MPI_COMM_WORLD, rank, error)
  x = rank + 1.5
  y = (/ rank, 2 * rank, -rank /)
  call mpi_allreduce(x, total, 1, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, error)
  call mpi_allreduce(MPI_IN_PLACE, y, 3, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, error)
  call mpi_iallreduce(x, later, 1, MPI_REAL, MPI_MIN, MPI_COMM_WORLD, request, error)
  call mpi_wait(request, MPI_STATUS_IGNORE, error)
  if (rank == 0) print '(5f8.2)', total, y, later
  call mpi_finalize(error)
end program
