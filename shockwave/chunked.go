package shockwave

import (
	"math"

	"titan.test/shockwave/parse"
)

// Faults of the chunked coding (RFC 9112 section 7.1); a body's reader gives them.
var (
	errChunkSize = &parse.Error{Status: 400, Reason: "a chunk size is not 1 to 16 hexadecimal digits up to 2^63-1 (RFC 9112 section 7.1)"}
	errChunkLine = &parse.Error{Status: 400, Reason: "a chunk line exceeds its limit (RFC 9112 section 7.1.1)"}
	errChunkExt  = &parse.Error{Status: 400, Reason: "a chunk extension is malformed (RFC 9112 section 7.1.1)"}
	errChunkEnd  = &parse.Error{Status: 400, Reason: "chunk data is not followed by CRLF (RFC 9112 section 7.1)"}
)

// A chunks is where reading stands in a chunked body, outside the chunks' data.
//
//	    .-------------------------------------------.
//	    v                                           |
//	chunkSize -> chunkExt -> chunkLF -> (data) -> chunkCR -> chunkEnd
//	    '--------------------^  |
//	                            '-> chunkTrailers, behind the chunk of size 0
type chunks struct {
	state  chunkState
	ext    extension // in chunkExt
	digits uint8
	line   int   // bytes of the unfinished chunk line
	size   int64 // as far as it is read
	left   int64 // bytes of data still to come; the taker counts them off
	total  int64 // the sizes of all chunks so far
}

type chunkState uint8

const (
	chunkSize chunkState = iota
	chunkExt
	chunkLF
	chunkCR
	chunkEnd
	chunkTrailers
)

// frame reads what is around the data, until data or the trailers begin or b ends,
// and says how much of b that was. A chunk line may have line bytes, all chunks
// together body bytes.
func (d *chunks) frame(b []byte, line int, body int64) (n int, fault error) {
	for n < len(b) && d.left == 0 && d.state != chunkTrailers {
		if fault := d.char(b[n], line, body); fault != nil {
			return n, fault
		}
		n++
	}
	return n, nil
}

func (d *chunks) char(c byte, line int, body int64) error {
	switch d.state {
	case chunkSize:
		if c != '\r' {
			d.line++
		}
		if d.line > line {
			return errChunkLine
		}
		return d.sizeByte(c)
	case chunkExt:
		if c != '\r' {
			d.line++
		}
		if d.line > line {
			return errChunkLine
		}
		return d.extByte(c)
	case chunkLF:
		if c != '\n' {
			return parse.ErrBareCR
		}
		return d.lineEnd(body)
	case chunkCR:
		d.state = chunkEnd
		if c != '\r' {
			return errChunkEnd
		}
	case chunkEnd:
		*d = chunks{total: d.total}
		if c != '\n' {
			return errChunkEnd
		}
	}
	return nil
}

func (d *chunks) sizeByte(c byte) error {
	digit := hexDigits[c]
	switch {
	case digit >= 0 && (d.digits == 16 || d.size > math.MaxInt64>>4):
		return errChunkSize
	case digit >= 0:
		d.size = d.size<<4 | int64(digit)
		d.digits++
	case d.digits == 0:
		return errChunkSize
	case c == '\r':
		d.state = chunkLF
	case c == ';':
		d.state, d.ext = chunkExt, extBegin
	case c == '\n':
		return parse.ErrBareLF
	default:
		return errChunkSize
	}
	return nil
}

func (d *chunks) extByte(c byte) error {
	switch {
	case c == '\r' && d.ext.mayEnd():
		d.state = chunkLF
		return nil
	case c == '\n':
		return parse.ErrBareLF
	}
	if d.ext = d.ext.after(c); d.ext == extNone {
		return errChunkExt
	}
	return nil
}

func (d *chunks) lineEnd(body int64) error {
	if d.size > body-d.total {
		return ErrBodyTooLong
	}
	d.total += d.size
	d.left = d.size
	d.state = chunkCR
	if d.size == 0 {
		d.state = chunkTrailers
	}
	return nil
}

// hexDigits has the value of each hexadecimal digit, -1 for every other byte.
var hexDigits = func() (values [256]int8) {
	for c := range values {
		switch {
		case '0' <= c && c <= '9':
			values[c] = int8(c - '0')
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			values[c] = int8(c | 0x20 - 'a' + 10)
		default:
			values[c] = -1
		}
	}
	return values
}()

// appendHex appends n in hexadecimal digits, without leading zeros.
func appendHex(b []byte, n uint64) []byte {
	const digits = "0123456789abcdef"
	shift := 60
	for shift > 0 && n>>shift == 0 {
		shift -= 4
	}
	for ; shift >= 0; shift -= 4 {
		b = append(b, digits[n>>shift&15])
	}
	return b
}
