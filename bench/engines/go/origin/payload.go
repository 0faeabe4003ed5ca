package main

import "fmt"

// What the load generator expects is laid down in bench/engines/src/payload.rs; this is the same in Go.
const (
	// variants is how many different small answers there are.
	variants = 16
	// largest is the most bytes of a body, either way.
	largest = 1 << 20
	small   = 128
	medium  = 30 << 10
)

// pattern is the bytes that large bodies consist of, from their first one on. They have no period: xorshift64.
var pattern = newPattern()

func newPattern() []byte {
	data := make([]byte, largest)
	state := uint64(0x9e37_79b9_7f4a_7c15)
	for i := range data {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
		data[i] = byte(state >> 32)
	}
	return data
}

func smallAnswer(variant int) []byte {
	body := fmt.Appendf(make([]byte, 0, small), "small answer %02d: ", variant)
	for i := len(body); i < small-1; i++ {
		body = append(body, 'a'+byte(i%26))
	}
	return append(body, '\n')
}

// receiptFor is the response to a POST of the pattern's first size bytes.
func receiptFor(size int) []byte {
	return fmt.Appendf(nil, "%d bytes, fnv1a %016x\n", size, fnv1a(pattern[:size]))
}

func fnv1a(data []byte) uint64 {
	sum := uint64(0xcbf2_9ce4_8422_2325)
	for _, char := range data {
		sum = (sum ^ uint64(char)) * 0x100_0000_01b3
	}
	return sum
}
