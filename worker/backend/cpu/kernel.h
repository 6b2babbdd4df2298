#ifndef SANGAM_WORKER_BACKEND_CPU_KERNEL_H_
#define SANGAM_WORKER_BACKEND_CPU_KERNEL_H_

// Put before the definition of a function with hot loops: it is compiled once per instruction set,
// and the machine's best version is chosen when the program starts. The versions give the same
// bits: products and sums are never contracted (-ffp-contract=off), and every sum has its order
// written down, lane by lane where it is to be vectorised.
//
// Clang 14 and sanitizers (the choice would run before their runtime is ready) take the plain
// version.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define SANGAM_CPU_KERNEL \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define SANGAM_CPU_KERNEL
#endif

// For what such functions call in their loops: a function that stayed on its own would be compiled
// for the least of the instruction sets.
#define SANGAM_CPU_INLINE __attribute__((always_inline)) inline

#endif  // SANGAM_WORKER_BACKEND_CPU_KERNEL_H_
