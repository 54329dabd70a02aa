#include "textflag.h"

// func Line(address uintptr)
TEXT ·Line(SB), NOSPLIT, $0-8
	MOVD address+0(FP), R0
	PRFM (R0), PLDL1KEEP
	RET

// func Lines(address, size uintptr)
TEXT ·Lines(SB), NOSPLIT, $0-16
	MOVD address+0(FP), R0
	MOVD size+8(FP), R1
loop:
	PRFM (R0), PLDL1KEEP
	ADD  $64, R0
	SUBS $64, R1
	BGT  loop
	RET
