! SPDX-License-Identifier: GPL-2.0-only
! Include bits.inc with `use mpi`.
program bits
  use mpi
  implicit none
  include 'bits.inc'
end program
