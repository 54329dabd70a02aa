#include "textflag.h"

// func Line(address uintptr)
TEXT ·Line(SB), NOSPLIT, $0-8
	MOVQ address+0(FP), AX
	PREFETCHT0 (AX)
	RET

// func Lines(address, size uintptr)
TEXT ·Lines(SB), NOSPLIT, $0-16
	MOVQ address+0(FP), AX
	MOVQ size+8(FP), CX
loop:
	PREFETCHT0 (AX)
	ADDQ $64, AX
	SUBQ $64, CX
	JGT  loop
	RET
