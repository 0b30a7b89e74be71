! SPDX-License-Identifier: GPL-2.0-only
! bits.inc by the module mpi
program bits
  use mpi
  implicit none
  include 'bits.inc'
end program
