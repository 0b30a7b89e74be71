! SPDX-License-Identifier: GPL-2.0-only
! Start requests before and after an MPI_Barrier that rank 0 calls through mpi_f08 and the others through `use mpi`.
! With an argument, all ranks call it through mpi_f08. A different routine of mpi_f08 completes each request. Rank 0
! prints the number of right results.
subroutine barrier_of_mpi()
  use mpi
  implicit none
  integer :: error
  call mpi_barrier(MPI_COMM_WORLD, error)
end subroutine

program entries
  use mpi_f08
  implicit none
  integer, parameter :: values = 2000
  integer :: k, rank, ranks, right = 0, least
  logical :: done
  type(MPI_Request) :: request(2)
  type(MPI_Status) :: status ! with an ignored status, Open MPI 4.1 never reports that a request is done
  double precision, asynchronous :: x(values), y(values), z(values)

  call mpi_init()
  call mpi_comm_rank(MPI_COMM_WORLD, rank)
  call mpi_comm_size(MPI_COMM_WORLD, ranks)
  x = rank + 1
  do k = 1, 10
    call mpi_iallreduce(x, y, values, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, request(1))
    call mpi_iallreduce(x, z, values, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, request(2))
    done = k == 1
    do while (.not. done)
      call mpi_request_get_status(request(1), done, status)
    end do
    call mpi_waitall(2, request, MPI_STATUSES_IGNORE)
    if (all(y == ranks * (ranks + 1) / 2) .and. all(z == ranks)) right = right + 1
    if (k > 1) cycle
    if (rank == 0 .or. command_argument_count() > 0) then
      call mpi_barrier(MPI_COMM_WORLD)
    else
      call barrier_of_mpi()
    end if
  end do
  call mpi_reduce(right, least, 1, MPI_INTEGER, MPI_MIN, 0, MPI_COMM_WORLD)
  if (rank == 0) print '(i0)', least
  call mpi_finalize()
end program
