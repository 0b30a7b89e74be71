! SPDX-License-Identifier: GPL-2.0-only
! Include bits.inc with mpif.h.
program bits
  implicit none
  include 'mpif.h'
  include 'bits.inc'
end program
