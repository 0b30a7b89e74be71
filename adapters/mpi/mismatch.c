// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Refuse programs that use another MPI library. This library cannot read the MPI_Allreduce() arguments of such
 * programs.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
#include "shim.h"

#ifdef OPEN_MPI
#define OURS "Open MPI", "openmpi"
#define OTHER "MPICH", "mpich"
#define OF_OTHER "MPIX_Grequest_start" /* a symbol that exists only in the other MPI library */
#else
#define OURS "MPICH", "mpich"
#define OTHER "Open MPI", "openmpi"
#define OF_OTHER "ompi_mpi_comm_world"
#endif

__attribute__((constructor)) static void refuse(void)
{
	static const char *const ours[] = {OURS}, *const other[] = {OTHER};

	if (!dlsym(RTLD_DEFAULT, OF_OTHER))
		return;
	fprintf(stderr,
		"fpisa: this libfpisa-mpi.so is for %s, but the program uses %s; preload the one in %s/ "
		"instead of %s/\n",
		ours[0], other[0], other[1], ours[1]);
	_exit(1);
}
