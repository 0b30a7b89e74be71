! SPDX-License-Identifier: GPL-2.0-only
! Compute sums out of place, in place and without blocking, and parts of sums. Rank 0 prints the sums.
program sums
  use mpi_f08
  implicit none
  integer :: error, rank
  type(MPI_Request) :: request
  real :: x, total, later, whole(4), parts(2)
  double precision :: y(3)

  call mpi_init(error)
  call mpi_comm_rank(MPI_COMM_WORLD, rank, error)
  x = rank + 1.5
  y = (/ rank, 2 * rank, -rank /)
  call mpi_allreduce(x, total, 1, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, error)
  call mpi_allreduce(MPI_IN_PLACE, y, 3, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, error)
  call mpi_iallreduce(x, later, 1, MPI_REAL, MPI_MIN, MPI_COMM_WORLD, request, error)
  call mpi_wait(request, MPI_STATUS_IGNORE, error)
  whole = (/ rank, rank + 1, rank + 2, rank + 3 /)
  call mpi_ireduce_scatter_block(whole, parts(1), 1, MPI_REAL, MPI_SUM, MPI_COMM_WORLD, request, error)
  call mpi_wait(request, MPI_STATUS_IGNORE, error)
  call mpi_ireduce_scatter(whole, parts(2), (/ 1, 1, 1, 1 /), MPI_REAL, MPI_MAX, MPI_COMM_WORLD, request, error)
  call mpi_wait(request, MPI_STATUS_IGNORE, error)
  if (rank == 0) print '(7f8.2)', total, y, later, parts
  call mpi_finalize(error)
end program
