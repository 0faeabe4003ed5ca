package parse

import "math/bits"

// The masks of a block: where a run of bytes of a class stops.
const (
	tokenStop  = iota // not a token byte
	valueStop         // not a byte of a field value: a control byte but HTAB, or DEL
	targetStop        // not a byte of a request target
)

const (
	blockBytes = 64
	// ringBlocks is the number of blocks whose masks are kept, a power of two.
	ringBlocks = 16
	// windowBlocks is the number of blocks that are classified at a time: a head is mostly shorter, and
	// what follows it may be a body. Twice as many and one more for the sentinel fit into the ring, so
	// that a line that goes on in the next window still has its beginning.
	windowBlocks = 7
)

// A block is the masks of 64 bytes, bit 0 for the first. The fourth word makes its size a power of two.
type block [4]uint64

// A scan is the classification of a window of a buffer, made ahead of the parser
// and kept for the next head behind it: the search for the end of a token, a
// value or a target is a search for a bit.
//
// Block i of the buffer, its bytes from 64*i on, has its masks in blocks[i%ringBlocks]. The bits
// of tokenStop and valueStop at end are set, so that a search for them need not count.
type scan struct {
	end    uint
	blocks [ringBlocks]block
}

// extend classifies the next bytes of b, which is longer than end.
func (s *scan) extend(b []byte) {
	first := s.end / blockBytes
	s.end = min(uint(len(b)), (first+windowBlocks)*blockBytes)
	data := b[first*blockBytes : s.end]
	if hasAVX2 {
		classifyAVX2(&s.blocks, &data[0], uint(len(data)), first)
	} else {
		classifyPortable(&s.blocks, data, first)
	}
	if s.end%blockBytes == 0 {
		behind := &s.blocks[s.end/blockBytes%ringBlocks]
		behind[tokenStop], behind[valueStop] = none, none
	}
}

// none has every bit set: nothing belongs to the class.
const none = ^uint64(0)

// find returns the first stop at pos or behind it, len(b) if there is none. It classifies as much as it
// needs. The bytes from pos to end are in the ring.
func (s *scan) find(b []byte, pos uint, stop int) uint {
	for from := pos; ; {
		if pos >= s.end {
			if s.end >= uint(len(b)) {
				return uint(len(b))
			}
			// A block that was not full has bits of no byte: what has come there since is not judged yet.
			pos = max(from, s.end)
			s.extend(b)
		}
		mask := s.blocks[pos/blockBytes%ringBlocks][stop] & (none << (pos % blockBytes))
		pos &^= blockBytes - 1
		if mask == 0 {
			pos += blockBytes
			continue
		}
		pos += uint(bits.TrailingZeros64(mask))
		if pos < s.end {
			return pos
		}
	}
}

// keep classifies the bytes from start on again unless the ring holds their masks: others would stand
// in their place.
func (s *scan) keep(start uint) {
	if start > s.end || s.end/blockBytes-start/blockBytes >= ringBlocks {
		s.end = start
	}
}

// holds reports whether start stays in the ring when more is classified.
func (s *scan) holds(start uint) bool {
	return s.end/blockBytes+windowBlocks-start/blockBytes < ringBlocks
}

// stops has for each byte a bit in the top of each of three bytes: tokenStop lowest, then valueStop,
// then targetStop.
var stops = stopTable()

func stopTable() (table [256]uint32) {
	for c := range table {
		for stop, class := range [...]uint8{tokenByte, valueByte, targetByte} {
			if classes[c]&class == 0 {
				table[c] |= 0x80 << (8 * stop)
			}
		}
	}
	return table
}

// classifyPortable sets the masks of b's bytes in the ring, where b begins with block first; in the last
// block the bits behind b's end are set, but those of targetStop, which mean nothing there.
func classifyPortable(ring *[ringBlocks]block, b []byte, first uint) {
	for ; len(b) >= blockBytes; first++ {
		classifyBlock(&ring[first%ringBlocks], (*[blockBytes]byte)(b))
		b = b[blockBytes:]
	}
	if len(b) == 0 {
		return
	}
	var tail [blockBytes]byte // NUL is in no class
	copy(tail[:], b)
	classifyBlock(&ring[first%ringBlocks], &tail)
}

// classifyBlock gathers the bits of eight bytes at a time: each enters at the top of its byte and is
// moved down by those behind it.
func classifyBlock(masks *block, data *[blockBytes]byte) {
	*masks = block{}
	for i := 0; i < blockBytes; i += 8 {
		var eight uint32
		for _, c := range data[i : i+8] {
			eight = eight>>1&0x7f7f7f | stops[c]
		}
		masks[tokenStop] |= uint64(eight&0xff) << i
		masks[valueStop] |= uint64(eight>>8&0xff) << i
		masks[targetStop] |= uint64(eight>>16&0xff) << i
	}
}
