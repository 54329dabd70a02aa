#include "textflag.h"

// func wide(text *byte, size int, flip, below uint64) int
TEXT ·wide(SB), NOSPLIT, $0-40
	MOVQ       text+0(FP), SI
	MOVQ       size+8(FP), CX
	MOVQ       flip+16(FP), X5
	MOVQ       below+24(FP), X6
	MOVQ       $0x5c5c5c5c5c5c5c5c, AX // backslashes
	MOVQ       AX, X7
	PUNPCKLQDQ X5, X5
	PUNPCKLQDQ X6, X6
	PUNPCKLQDQ X7, X7
	MOVQ       SI, DX
	LEAQ       -16(SI)(CX*1), BX // the last step of 16
	LEAQ       -16(BX), R8       // and the last of 32

pairs:
	CMPQ     SI, R8
	JHI      single
	MOVOU    (SI), X0
	MOVOU    16(SI), X1
	MOVO     X0, X2
	MOVO     X1, X3
	PXOR     X5, X0
	PXOR     X5, X1
	MOVO     X6, X4
	MOVO     X6, X8
	PCMPEQB  X7, X2
	PCMPEQB  X7, X3
	PCMPGTB  X0, X4
	PCMPGTB  X1, X8
	POR      X4, X2
	POR      X8, X3
	MOVO     X2, X4
	POR      X3, X4
	PMOVMSKB X4, AX
	TESTL    AX, AX
	JNZ      pair
	ADDQ     $32, SI
	JMP      pairs

pair:
	PMOVMSKB X2, AX
	PMOVMSKB X3, DI
	SHLL     $16, DI
	ORL      DI, AX
	JMP      found

single:
	CMPQ     SI, BX
	JHI      rest
	MOVOU    (SI), X0
	MOVO     X0, X2
	PXOR     X5, X0
	MOVO     X6, X4
	PCMPEQB  X7, X2
	PCMPGTB  X0, X4
	POR      X4, X2
	PMOVMSKB X2, AX
	TESTL    AX, AX
	JNZ      found
	ADDQ     $16, SI

rest: // up to 15 bytes, once more with some before them
	MOVQ     BX, SI
	MOVOU    (SI), X0
	MOVO     X0, X2
	PXOR     X5, X0
	MOVO     X6, X4
	PCMPEQB  X7, X2
	PCMPGTB  X0, X4
	POR      X4, X2
	PMOVMSKB X2, AX
	TESTL    AX, AX
	JNZ      found
	MOVQ     CX, ret+32(FP)
	RET

found:
	BSFL AX, AX
	SUBQ DX, SI
	ADDQ SI, AX
	MOVQ AX, ret+32(FP)
	RET
