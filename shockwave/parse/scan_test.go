package parse

import (
	"math/rand/v2"
	"testing"
)

// naiveMasks is the twin of the classification: the masks of bytes i*64 to i*64+63 of b.
func naiveMask(b []byte, i, stop int) (mask, defined uint64) {
	class := [...]uint8{tokenByte, valueByte, targetByte}[stop]
	for bit := range blockBytes {
		at := i*blockBytes + bit
		if at < len(b) && classes[b[at]]&class == 0 {
			mask |= 1 << bit
		}
		if at < len(b) {
			defined |= 1 << bit
		}
	}
	if stop != targetStop {
		mask |= ^defined
		defined = none
	}
	return mask, defined
}

type classifier func(ring *[ringBlocks]block, b []byte, first uint)

func classifiers() map[string]classifier {
	all := map[string]classifier{"portable": classifyPortable}
	if hasAVX2 {
		all["avx2"] = func(ring *[ringBlocks]block, b []byte, first uint) {
			classifyAVX2(ring, &b[0], uint(len(b)), first)
		}
	}
	return all
}

func checkMasks(t *testing.T, classify classifier, b []byte, first int) {
	t.Helper()
	var ring [ringBlocks]block
	classify(&ring, b, uint(first))
	for i := 0; i*blockBytes < len(b); i++ {
		for stop := tokenStop; stop <= targetStop; stop++ {
			want, defined := naiveMask(b, i, stop)
			if got := ring[(first+i)%ringBlocks][stop]; got&defined != want {
				t.Fatalf("%d bytes %q, block %d, stop %d: %064b, want %064b", len(b), b, i, stop, got&defined, want)
			}
		}
	}
}

func TestMasksOfEveryByte(t *testing.T) {
	var b [256]byte
	for c := range b {
		b[c] = byte(c)
	}
	for name, classify := range classifiers() {
		t.Run(name, func(t *testing.T) { checkMasks(t, classify, b[:], 0) })
	}
}

func TestMasksAtEveryLengthAndAlignment(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	buffer := make([]byte, 500)
	for name, classify := range classifiers() {
		t.Run(name, func(t *testing.T) {
			for size := 1; size <= 300; size++ {
				for i := range buffer {
					buffer[i] = byte(random.IntN(256))
				}
				for offset := range 64 {
					checkMasks(t, classify, buffer[offset:offset+size], random.IntN(100))
				}
			}
		})
	}
}

// A search finds what is there however often the window has to move, and from wherever it begins.
func TestFindAcrossWindows(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		b := make([]byte, 1+random.IntN(3000))
		for i := range b {
			b[i] = 'a'
		}
		for range random.IntN(4) {
			b[random.IntN(len(b))] = "\r :\x7f"[random.IntN(4)]
		}
		var s scan
		start := uint(random.IntN(len(b)))
		s.end = start
		for pos := start; pos < uint(len(b)); pos += 1 + uint(random.IntN(400)) {
			stop := random.IntN(3)
			class := [...]uint8{tokenByte, valueByte, targetByte}[stop]
			want := uint(run(b, int(pos), class))
			if got := s.find(b, pos, stop); got != want {
				t.Fatalf("find(%d, %d) = %d, want %d in %q", pos, stop, got, want, b)
			}
			pos = max(pos, s.end-min(s.end, blockBytes))
		}
	}
}

func BenchmarkClassify(b *testing.B) {
	data := make([]byte, windowBlocks*blockBytes)
	var ring [ringBlocks]block
	for name, classify := range classifiers() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(data)))
			for b.Loop() {
				classify(&ring, data, 0)
			}
		})
	}
}
