#ifndef QUIRE_KERNELS_CPU_ISA_TARGET_H_
#define QUIRE_KERNELS_CPU_ISA_TARGET_H_

// The same source is compiled for several instruction sets, and the linker keeps one of equal weak
// symbols: an inline function or template shared by two such objects could run AVX-512 code on an
// AVX2 machine. So everything with a body that these objects include lies in an inline namespace
// named after the instruction set, and small functions are always inlined on top. The build sets
// QUIRE_ISA (kernels/CMakeLists.txt, quire_cpu_sources); objects without special flags see
// isa_reference. Such sources include no header with bodies but ours, intrinsics and the C library.
#ifndef QUIRE_ISA
#define QUIRE_ISA isa_reference
#endif

#define QUIRE_INLINE inline __attribute__((always_inline))

#endif  // QUIRE_KERNELS_CPU_ISA_TARGET_H_
