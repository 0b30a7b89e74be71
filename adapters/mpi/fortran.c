// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * Entry points of MPI's Fortran bindings that call PMPI functions directly, and so bypass calls.c. In Open MPI, mpif.h
 * and `use mpi` call mpi_allreduce_(), and mpi_f08 calls ompi_allreduce_f(). The other functions have corresponding
 * names. MPICH's Fortran functions call MPI_Allreduce() and the like. The exceptions are functions of mpi_f08 without a
 * choice buffer, which call PMPI.
 */
#include <dlfcn.h>
#include "shim.h"

#ifdef OPEN_MPI

/*
 * Return whether p is the address of this Fortran variable, in any spelling that a Fortran compiler may use for the
 * name.
 */
static int is_fortran(const void *p, const char *const names[4])
{
	for (int i = 0; i < 4; i++) {
		const void *at = dlsym(RTLD_DEFAULT, names[i]);

		if (at && at == p)
			return 1;
	}
	return 0;
}

static const char *const in_place[4] = {"mpi_fortran_in_place_", "mpi_fortran_in_place", "mpi_fortran_in_place__",
					"MPI_FORTRAN_IN_PLACE"};
static const char *const bottom[4] = {"mpi_fortran_bottom_", "mpi_fortran_bottom", "mpi_fortran_bottom__",
				      "MPI_FORTRAN_BOTTOM"};

static void *address(void *p)
{
	return is_fortran(p, in_place) ? MPI_IN_PLACE : is_fortran(p, bottom) ? MPI_BOTTOM : p;
}

#define ARGUMENTS void *send, void *recv, MPI_Fint *count, MPI_Fint *type, MPI_Fint *op, MPI_Fint *comm
#define C_ARGUMENTS \
	address(send), address(recv), (int)*count, PMPI_Type_f2c(*type), PMPI_Op_f2c(*op), PMPI_Comm_f2c(*comm)

ENTRY void ompi_allreduce_f(ARGUMENTS, MPI_Fint *error)
{
	int rc = MPI_Allreduce(C_ARGUMENTS);

	if (error)
		*error = (MPI_Fint)rc;
}

ENTRY void ompi_iallreduce_f(ARGUMENTS, MPI_Fint *request, MPI_Fint *error)
{
	MPI_Request r;
	int rc = MPI_Iallreduce(C_ARGUMENTS, &r);

	if (error)
		*error = (MPI_Fint)rc;
	if (!rc)
		*request = PMPI_Request_c2f(r);
}

ENTRY void ompi_barrier_f(MPI_Fint *comm, MPI_Fint *error)
{
	int rc = MPI_Barrier(PMPI_Comm_f2c(*comm));

	if (error)
		*error = (MPI_Fint)rc;
}

ENTRY void ompi_reduce_f(void *send, void *recv, MPI_Fint *count, MPI_Fint *type, MPI_Fint *op, MPI_Fint *root,
			 MPI_Fint *comm, MPI_Fint *error)
{
	int rc = MPI_Reduce(address(send), address(recv), (int)*count, PMPI_Type_f2c(*type), PMPI_Op_f2c(*op),
			    (int)*root, PMPI_Comm_f2c(*comm));

	if (error)
		*error = (MPI_Fint)rc;
}

_Static_assert(sizeof(MPI_Fint) == sizeof(int), "an array of Fortran integers is one of C");

ENTRY void ompi_reduce_scatter_f(ARGUMENTS, MPI_Fint *error)
{
	int rc = MPI_Reduce_scatter(address(send), address(recv), count, PMPI_Type_f2c(*type), PMPI_Op_f2c(*op),
				    PMPI_Comm_f2c(*comm));

	if (error)
		*error = (MPI_Fint)rc;
}

ENTRY void ompi_reduce_scatter_block_f(ARGUMENTS, MPI_Fint *error)
{
	int rc = MPI_Reduce_scatter_block(C_ARGUMENTS);

	if (error)
		*error = (MPI_Fint)rc;
}

ENTRY void ompi_ireduce_scatter_f(ARGUMENTS, MPI_Fint *request, MPI_Fint *error)
{
	MPI_Request r;
	int rc = MPI_Ireduce_scatter(address(send), address(recv), count, PMPI_Type_f2c(*type), PMPI_Op_f2c(*op),
				     PMPI_Comm_f2c(*comm), &r);

	if (error)
		*error = (MPI_Fint)rc;
	if (!rc)
		*request = PMPI_Request_c2f(r);
}

ENTRY void ompi_ireduce_scatter_block_f(ARGUMENTS, MPI_Fint *request, MPI_Fint *error)
{
	MPI_Request r;
	int rc = MPI_Ireduce_scatter_block(C_ARGUMENTS, &r);

	if (error)
		*error = (MPI_Fint)rc;
	if (!rc)
		*request = PMPI_Request_c2f(r);
}

#define ALSO(name) ENTRY void name(ARGUMENTS, MPI_Fint *error) __attribute__((alias("ompi_reduce_scatter_f")))
ALSO(mpi_reduce_scatter);
ALSO(mpi_reduce_scatter_);
ALSO(mpi_reduce_scatter__);
ALSO(MPI_REDUCE_SCATTER);
#undef ALSO
#define ALSO(name) ENTRY void name(ARGUMENTS, MPI_Fint *error) __attribute__((alias("ompi_reduce_scatter_block_f")))
ALSO(mpi_reduce_scatter_block);
ALSO(mpi_reduce_scatter_block_);
ALSO(mpi_reduce_scatter_block__);
ALSO(MPI_REDUCE_SCATTER_BLOCK);
#undef ALSO
#define ALSO(name) ENTRY void name(ARGUMENTS, MPI_Fint *error) __attribute__((alias("ompi_allreduce_f")))
ALSO(mpi_allreduce);
ALSO(mpi_allreduce_);
ALSO(mpi_allreduce__);
ALSO(MPI_ALLREDUCE);
#undef ALSO
#define ALSO(name) \
	ENTRY void name(ARGUMENTS, MPI_Fint *request, MPI_Fint *error) __attribute__((alias("ompi_iallreduce_f")))
ALSO(mpi_iallreduce);
ALSO(mpi_iallreduce_);
ALSO(mpi_iallreduce__);
ALSO(MPI_IALLREDUCE);
#undef ALSO
#define ALSO(name) \
	ENTRY void name(ARGUMENTS, MPI_Fint *request, MPI_Fint *error) __attribute__((alias("ompi_ireduce_scatter_f")))
ALSO(mpi_ireduce_scatter);
ALSO(mpi_ireduce_scatter_);
ALSO(mpi_ireduce_scatter__);
ALSO(MPI_IREDUCE_SCATTER);
#undef ALSO
#define ALSO(name)                                                     \
	ENTRY void name(ARGUMENTS, MPI_Fint *request, MPI_Fint *error) \
		__attribute__((alias("ompi_ireduce_scatter_block_f")))
ALSO(mpi_ireduce_scatter_block);
ALSO(mpi_ireduce_scatter_block_);
ALSO(mpi_ireduce_scatter_block__);
ALSO(MPI_IREDUCE_SCATTER_BLOCK);
#undef ALSO
#define ALSO(name) ENTRY void name(MPI_Fint *comm, MPI_Fint *error) __attribute__((alias("ompi_barrier_f")))
ALSO(mpi_barrier);
ALSO(mpi_barrier_);
ALSO(mpi_barrier__);
ALSO(MPI_BARRIER);
#undef ALSO
#define ALSO(name)                                                                                             \
	ENTRY void name(void *send, void *recv, MPI_Fint *count, MPI_Fint *type, MPI_Fint *op, MPI_Fint *root, \
			MPI_Fint *comm, MPI_Fint *error) __attribute__((alias("ompi_reduce_f")))
ALSO(mpi_reduce);
ALSO(mpi_reduce_);
ALSO(mpi_reduce__);
ALSO(MPI_REDUCE);
#else
/* Call MPICH's function after ours, because MPICH's function handles the status of mpi_f08 and optional arguments. */
#define THEN(entry, ...)                                    \
	do {                                                \
		__typeof__(&(entry)) next;                  \
                                                            \
		*(void **)&next = dlsym(RTLD_NEXT, #entry); \
		next(__VA_ARGS__);                          \
	} while (0)

ENTRY void mpi_barrier_f08_(MPI_Fint *comm, MPI_Fint *error)
{
	comm_agree_on_requests(PMPI_Comm_f2c(*comm));
	THEN(mpi_barrier_f08_, comm, error);
}

ENTRY void mpi_request_get_status_f08_(MPI_Fint *request, void *flag, void *status, MPI_Fint *error)
{
	request_complete_ended();
	THEN(mpi_request_get_status_f08_, request, flag, status, error);
}

/* Wait, and then call MPICH's function. MPICH uses the same number for a request in C and in Fortran. */
ENTRY void mpi_waitall_f08_(MPI_Fint *count, MPI_Request r[], void *statuses, MPI_Fint *error)
{
	request_await(*count, r);
	THEN(mpi_waitall_f08_, count, r, statuses, error);
}
#endif
