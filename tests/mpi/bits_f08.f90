! SPDX-License-Identifier: GPL-2.0-only
! Include bits.inc with `use mpi_f08`.
program bits
  use mpi_f08
  implicit none
  include 'bits.inc'
end program
