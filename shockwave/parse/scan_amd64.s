#include "textflag.h"

// A byte belongs to a class when the bit for its upper four bits is set in the class's entry for its
// lower four. A byte over 0x7f indexes nothing: VPSHUFB answers it with 0, which is in no class.

// The bit for the upper four bits.
DATA upper<>+0(SB)/8, $0x8040201008040201
DATA upper<>+8(SB)/8, $0x8040201008040201
GLOBL upper<>(SB), RODATA|NOPTR, $16

// The bytes of tokens (RFC 9110 section 5.6.2).
DATA token<>+0(SB)/8, $0xfcfcfcfcfcf8fce8
DATA token<>+8(SB)/8, $0x70f454d054f4f8f8
GLOBL token<>(SB), RODATA|NOPTR, $16

// The control bytes but HTAB, and DEL.
DATA control<>+0(SB)/8, $0x0303030303030303
DATA control<>+8(SB)/8, $0x8303030303030203
GLOBL control<>(SB), RODATA|NOPTR, $16

// Visible ASCII without '#'.
DATA target<>+0(SB)/8, $0xfcfcfcfcf8fcfcf8
DATA target<>+8(SB)/8, $0x7cfcfcfcfcfcfcfc
GLOBL target<>(SB), RODATA|NOPTR, $16

DATA nibble<>+0(SB)/8, $0x0f0f0f0f0f0f0f0f
GLOBL nibble<>(SB), RODATA|NOPTR, $8

// func classifyAVX2(ring *[ringBlocks]block, start *byte, count, first uint)
//
// A last block that is not full is read whole where that stays within a page of 4096 bytes: the page is
// there, for at least one byte of it is the caller's, and what is read behind the end decides nothing.
// Otherwise, one time in sixty-four, its R10 bytes are copied first. R9 is the bits behind the end.
TEXT ·classifyAVX2(SB), NOSPLIT, $64-32
	MOVQ ring+0(FP), DI
	MOVQ start+8(FP), SI
	MOVQ count+16(FP), CX
	MOVQ first+24(FP), DX

	VBROADCASTI128 upper<>(SB), Y8
	VBROADCASTI128 token<>(SB), Y9
	VBROADCASTI128 control<>(SB), Y10
	VBROADCASTI128 target<>(SB), Y11
	VPBROADCASTQ   nibble<>(SB), Y12
	VPXOR          Y13, Y13, Y13
	SHLQ           $5, DX
	XORL           R8, R8
	XORL           R9, R9
	MOVQ           CX, R10
	ANDQ           $63, R10
	SHRQ           $6, CX
	TESTQ          R10, R10
	JZ             begin
	MOVQ           CX, AX
	SHLQ           $6, AX
	ADDQ           SI, AX
	ANDQ           $4095, AX
	CMPQ           AX, $4032
	JHI            begin
	XCHGQ          CX, R10
	MOVQ           $-1, R9
	SHLQ           CX, R9
	LEAQ           1(R10), CX
	XORL           R10, R10

begin:
	TESTQ CX, CX
	JZ    tail

next:
	VMOVDQU 0(SI), Y0
	VMOVDQU 32(SI), Y1
	ANDQ    $0x1e0, DX
	CMPQ    CX, $1
	CMOVQEQ R9, R8

	// Y2 and Y3: the bit for the upper four bits of each byte.
	VPSRLW  $4, Y0, Y2
	VPSRLW  $4, Y1, Y3
	VPAND   Y12, Y2, Y2
	VPAND   Y12, Y3, Y3
	VPSHUFB Y2, Y8, Y2
	VPSHUFB Y3, Y8, Y3

	VPSHUFB   Y0, Y9, Y4
	VPSHUFB   Y1, Y9, Y5
	VPAND     Y2, Y4, Y4
	VPAND     Y3, Y5, Y5
	VPCMPEQB  Y13, Y4, Y4
	VPCMPEQB  Y13, Y5, Y5
	VPMOVMSKB Y4, AX
	VPMOVMSKB Y5, BX
	SHLQ      $32, BX
	ORQ       BX, AX
	ORQ       R8, AX
	MOVQ      AX, 0(DI)(DX*1)

	VPSHUFB   Y0, Y10, Y4
	VPSHUFB   Y1, Y10, Y5
	VPAND     Y2, Y4, Y4
	VPAND     Y3, Y5, Y5
	VPCMPEQB  Y13, Y4, Y4
	VPCMPEQB  Y13, Y5, Y5
	VPMOVMSKB Y4, AX
	VPMOVMSKB Y5, BX
	SHLQ      $32, BX
	ORQ       BX, AX
	NOTQ      AX
	ORQ       R8, AX
	MOVQ      AX, 8(DI)(DX*1)

	VPSHUFB   Y0, Y11, Y4
	VPSHUFB   Y1, Y11, Y5
	VPAND     Y2, Y4, Y4
	VPAND     Y3, Y5, Y5
	VPCMPEQB  Y13, Y4, Y4
	VPCMPEQB  Y13, Y5, Y5
	VPMOVMSKB Y4, AX
	VPMOVMSKB Y5, BX
	SHLQ      $32, BX
	ORQ       BX, AX
	MOVQ      AX, 16(DI)(DX*1)

	ADDQ $64, SI
	ADDQ $32, DX
	DECQ CX
	JNZ  next

tail:
	TESTQ R10, R10
	JZ    done
	MOVQ  DI, R11
	LEAQ  copy-64(SP), DI
	MOVQ  DI, R12
	MOVQ  R10, CX
	REP; MOVSB
	MOVQ  R11, DI
	MOVQ  R12, SI
	MOVQ  R10, CX
	MOVQ  $-1, R9
	SHLQ  CX, R9
	MOVL  $1, CX
	XORL  R10, R10
	JMP   next

done:
	VZEROUPPER
	RET

// func cpuid(leaf uint32) (eax, ebx, ecx uint32)
TEXT ·cpuid(SB), NOSPLIT, $0-20
	MOVL leaf+0(FP), AX
	XORL CX, CX
	CPUID
	MOVL AX, eax+8(FP)
	MOVL BX, ebx+12(FP)
	MOVL CX, ecx+16(FP)
	RET

// func xgetbv() (eax uint32)
TEXT ·xgetbv(SB), NOSPLIT, $0-4
	XORL CX, CX
	XGETBV
	MOVL AX, eax+0(FP)
	RET
