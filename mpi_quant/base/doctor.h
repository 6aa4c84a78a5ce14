/* What mpiq-run --doctor and a core say to each other. mpiq-run knows no MPI, so it loads a core and asks
 * it. */
#ifndef MPI_QUANT_BASE_DOCTOR_H
#define MPI_QUANT_BASE_DOCTOR_H

enum { MPIQ_DOCTOR_TEXT = 512 };

typedef struct mpiq_health {
  int rank, ranks, node_ranks;    /* of MPI_COMM_WORLD; the ranks on this node */
  int code;                       /* of the compressed sum; 0 is MPI_SUCCESS */
  int equal;                      /* 1: the sum has the same bits on all ranks */
  double error;                   /* its relative L2 error, the largest of any rank */
  char library[MPIQ_DOCTOR_TEXT]; /* name and version of the MPI library */
  char message[MPIQ_DOCTOR_TEXT]; /* what the code means */
} mpiq_health;

/* Bytes of the vector that is summed, and the method. bf16 keeps 8 bits: of one sum it is 0.2 % off. */
enum { MPIQ_DOCTOR_BYTES = 1 << 20 };
#define MPIQ_DOCTOR_METHOD "bf16"

/* Starts MPI, makes one compressed sum, ends MPI. Collective over MPI_COMM_WORLD, and once in a process. A
 * core exports it as mpiq_doctor_v1. Returns 0, or 1 if MPI could not be started. */
typedef int (*mpiq_doctor)(mpiq_health*);

#endif
