! SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
! The length of a vector that is distributed over the ranks, and its largest element, using MPI only. With
! libfpisa-mpi.so preloaded (doc/mpi.md) the aggregator does both reductions, the second while this program computes.
program norm
  use mpi_f08
  implicit none
  integer, parameter :: total = 1200
  integer :: rank, ranks, i
  real :: x, squares, largest, answer, biggest
  type(MPI_Request) :: request

  call mpi_init()
  call mpi_comm_rank(MPI_COMM_WORLD, rank)
  call mpi_comm_size(MPI_COMM_WORLD, ranks)
  squares = 0
  largest = 0
  do i = rank, total - 1, ranks
    x = mod(i, 5)
    squares = squares + x * x
    largest = max(largest, x)
  end do
  call mpi_allreduce(squares, answer, 1, MPI_REAL, MPI_SUM, MPI_COMM_WORLD)
  call mpi_iallreduce(largest, biggest, 1, MPI_REAL, MPI_MAX, MPI_COMM_WORLD, request)
  answer = sqrt(answer)
  call mpi_wait(request, MPI_STATUS_IGNORE)
  if (rank == 0) print '(a, f6.3, a, f3.1)', 'length ', answer, ', largest ', biggest
  call mpi_finalize()
end program
