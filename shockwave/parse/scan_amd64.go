package parse

var hasAVX2 = detectAVX2()

// classifyAVX2 is classifyPortable for the bytes from start on, at least one.
//
//go:noescape
func classifyAVX2(ring *[ringBlocks]block, start *byte, count, first uint)

// detectAVX2 reports whether the processor has AVX2 and the operating system keeps its registers.
func detectAVX2() bool {
	const (
		osxsave, avx = 1 << 27, 1 << 28 // leaf 1, ECX
		avx2         = 1 << 5           // leaf 7, EBX
		registers    = 1<<1 | 1<<2      // XMM and YMM, XCR0
	)
	if leaves, _, _ := cpuid(0); leaves < 7 {
		return false
	}
	if _, _, ecx := cpuid(1); ecx&(osxsave|avx) != osxsave|avx {
		return false
	}
	_, ebx, _ := cpuid(7)
	return xgetbv()&registers == registers && ebx&avx2 != 0
}

// cpuid executes CPUID with this leaf and subleaf 0.
//
//go:noescape
func cpuid(leaf uint32) (eax, ebx, ecx uint32)

// xgetbv returns the lower half of XCR0.
//
//go:noescape
func xgetbv() (eax uint32)
