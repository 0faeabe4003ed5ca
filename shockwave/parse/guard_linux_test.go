package parse

import (
	"bytes"
	"os"
	"syscall"
	"testing"
)

// guarded returns a slice that ends, or begins, where memory that cannot be read begins, or ends.
func guarded(t *testing.T, size int, atEnd bool) []byte {
	t.Helper()
	page := os.Getpagesize()
	inner := (size + page - 1) / page * page
	all, err := syscall.Mmap(-1, 0, inner+2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Munmap(all) })
	for _, guard := range [][]byte{all[:page], all[page+inner:]} {
		if err := syscall.Mprotect(guard, syscall.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	if atEnd {
		return all[page+inner-size : page+inner : page+inner]
	}
	return all[page : page+size : page+size]
}

// Nothing outside of the slice is read where that would be a fault.
func TestMasksBetweenGuardPages(t *testing.T) {
	for name, classify := range classifiers() {
		t.Run(name, func(t *testing.T) {
			for _, atEnd := range []bool{false, true} {
				b := guarded(t, 300, atEnd)
				for i := range b {
					b[i] = byte(i * 7)
				}
				for size := 1; size <= len(b); size++ {
					if atEnd {
						checkMasks(t, classify, b[len(b)-size:], 0)
					} else {
						checkMasks(t, classify, b[:size], 0)
					}
				}
			}
		})
	}
}

// The whole parser keeps to the slice too, wherever the head is cut off.
func TestHeadsBetweenGuardPages(t *testing.T) {
	head := []byte("GET /a HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n" +
		"Content-Length: 5\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\n\r\n")
	for _, atEnd := range []bool{false, true} {
		memory := guarded(t, len(head), atEnd)
		var p Parser
		p.Init(Limits{})
		for size := 0; size <= len(head); size++ {
			b := memory[:size]
			if atEnd {
				b = memory[len(memory)-size:]
			}
			copy(b, head)
			p.Reset()
			_, err := p.Parse(b, 0)
			if size < len(head) && err != ErrIncomplete || size == len(head) && err != ErrLengthAndCoding {
				t.Fatalf("%d bytes: %v", size, err)
			}
			if !bytes.Equal(b, head[:size]) {
				t.Fatal("the bytes changed")
			}
		}
	}
}

// Not even a caller that takes bytes away again, which it must not, has the parser read outside.
func TestShorterBuffersBetweenGuardPages(t *testing.T) {
	long := []byte("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\nX: y\r\nX: y\r\nX: y\r\n\r\n")
	for size := 0; size < len(long); size += 3 {
		for _, isBegun := range []bool{false, true} {
			var p Parser
			p.Init(Limits{})
			next, err := p.Parse(long, 0)
			if err != nil {
				t.Fatal(err)
			}
			if isBegun {
				p.Parse(long[:len(long)-3], next)
			}
			short := guarded(t, size, true)
			copy(short, long)
			func() {
				defer func() { _ = recover() }()
				p.Parse(short, min(next, size))
			}()
		}
	}
}
