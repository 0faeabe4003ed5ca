package shockwave

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"mime"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"titan.test/shockwave/parse"
)

// filePiece is what one call of sendfile(2) is given: between two it is seen that
// the client takes bytes.
const filePiece = 128 << 10

// SendFile responds with a file by sendfile(2): Content-Type by its extension
// unless set, Last-Modified, HEAD, and while the status is 200 If-Modified-Since
// (304) and one byte range (206, 416; RFC 9110 section 14). If the file cannot be
// opened, SendFile returns the error and sends nothing: respond with 404. A path
// that is not a regular file is an error too.
func (c *Ctx) SendFile(path string) error {
	c.check()
	if c.sent || len(c.kept) > 0 || c.conn.hijacked {
		return c.tooLate()
	}
	file, info, err := openRegular(path)
	if err != nil {
		return err
	}
	defer file.Close()
	c.describe(path, info)
	if c.notModified(info.ModTime()) {
		c.status, c.length = 304, unset
		return c.Send("", nil)
	}
	from, to, ok := c.byteRange(info)
	if !ok {
		c.status, c.length = 416, unset
		c.setOwn("Content-Range", "bytes */"+strconv.FormatInt(info.Size(), 10))
		return c.Send("", nil)
	}
	if _, err := file.Seek(from, io.SeekStart); err != nil {
		return err
	}
	c.length = to - from
	c.appendHead("", unset)
	c.complete = true
	if c.coding == noBody {
		return nil
	}
	if err := c.sendBytes(file, to-from); err != nil {
		c.keep = false
		return err
	}
	return nil
}

// openRegular does not open what is no file: to open a pipe would wait for a
// writer.
func openRegular(path string) (*os.File, os.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, nil, &fs.PathError{Op: "open", Path: path, Err: errNotRegular}
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	if info, err = file.Stat(); err != nil {
		file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

var errNotRegular = errors.New("not a regular file")

// describe sets the fields that every response about a file has.
func (c *Ctx) describe(path string, info os.FileInfo) {
	if len(c.kind) == 0 {
		kind := mime.TypeByExtension(filepath.Ext(path))
		if kind == "" {
			kind = "application/octet-stream"
		}
		c.kind = append(c.kind, kind...)
	}
	c.setOwn("Last-Modified", info.ModTime().UTC().Format(dateFormat))
	c.setOwn("Accept-Ranges", "bytes")
}

// notModified reports whether the client has this version (RFC 9110 section
// 13.1.3). Files have no entity tag, so If-None-Match cannot match; it makes
// If-Modified-Since void. So does a status other than 200 (section 13.2.1).
func (c *Ctx) notModified(modified time.Time) bool {
	method := c.head.MethodID()
	since := c.Field(parse.FieldIfModifiedSince)
	if c.status != 200 {
		return false
	}
	if since == nil || c.Field(parse.FieldIfNoneMatch) != nil || method != parse.MethodGet && method != parse.MethodHead {
		return false
	}
	have, err := time.Parse(dateFormat, string(since))
	return err == nil && !modified.Truncate(time.Second).After(have)
}

// byteRange gives the requested part of the file and sets the status; false says that the file has no such part. A
// Range that is malformed, that names several parts or another unit is ignored, as RFC 9110 section 14.2 allows.
func (c *Ctx) byteRange(info os.FileInfo) (from, to int64, ok bool) {
	size := info.Size()
	if c.head.MethodID() != parse.MethodGet || !c.rangeApplies(info) {
		return 0, size, true
	}
	spec, isBytes := strings.CutPrefix(string(c.Field(parse.FieldRange)), "bytes=")
	first, last, isRange := strings.Cut(spec, "-")
	if !isBytes || !isRange || c.status != 200 {
		return 0, size, true
	}
	from, hasFirst := position(first)
	to, hasLast := position(last)
	switch {
	case !hasFirst && first != "" || !hasLast && last != "" || !hasFirst && !hasLast || hasFirst && hasLast && to < from:
		return 0, size, true
	case !hasFirst:
		from, to = max(size-to, 0), size
	case !hasLast:
		to = size
	default:
		to = min(to, size-1) + 1
	}
	if from >= to {
		return 0, 0, false
	}
	c.status = 206
	c.setOwn("Content-Range", contentRange(from, to, size))
	return from, to, true
}

func contentRange(from, to, size int64) string {
	text := append(make([]byte, 0, 64), "bytes "...)
	text = append(strconv.AppendInt(text, from, 10), '-')
	text = append(strconv.AppendInt(text, to-1, 10), '/')
	return string(strconv.AppendInt(text, size, 10))
}

// rangeApplies reports whether If-Range lets Range count: there is none, or it is the
// file's own time (RFC 9110 section 13.1.5).
func (c *Ctx) rangeApplies(info os.FileInfo) bool {
	condition := c.Field(parse.FieldIfRange)
	return condition == nil || string(condition) == info.ModTime().UTC().Format(dateFormat)
}

// position reads the digits of a range; more than a file can have are the most it
// can have.
func position(digits string) (n int64, ok bool) {
	for i := range len(digits) {
		if digits[i]-'0' > 9 {
			return 0, false
		}
	}
	if digits == "" {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n == math.MaxInt64 {
		return math.MaxInt64 - 1, true
	}
	return n, true
}

// sendBytes sends n bytes of the file: behind the head in one write if they fit,
// else from the kernel's cache to the socket.
func (c *Ctx) sendBytes(file *os.File, n int64) error {
	if room := cap(c.out) - len(c.out); n <= int64(room) {
		into := c.out[len(c.out) : len(c.out)+int(n)]
		if _, err := io.ReadFull(file, into); err != nil {
			return err
		}
		c.out = c.out[:len(c.out)+int(n)]
		return nil
	}
	if tcp, ok := c.conn.nc.(*net.TCPConn); ok {
		return c.conn.sendfile(tcp, file, n)
	}
	buffer := takeBuffer(filePiece)
	defer giveBuffer(buffer)
	for n > 0 {
		got, err := file.Read(buffer.b[:min(n, int64(len(buffer.b)))])
		if err != nil {
			return err
		}
		if err := c.push(buffer.b[:got]); err != nil {
			return err
		}
		n -= int64(got)
	}
	return nil
}

func (c *conn) sendfile(tcp *net.TCPConn, file *os.File, n int64) error {
	if err := c.ctx.flushNow(); err != nil {
		return err
	}
	defer c.mark(phaseBusy)
	for n > 0 {
		c.mark(phaseWrite)
		sent, err := tcp.ReadFrom(&io.LimitedReader{R: file, N: min(n, filePiece)})
		if err == nil && sent == 0 {
			return io.ErrUnexpectedEOF
		}
		if err != nil {
			c.broken = lateness(err)
			return c.broken
		}
		n -= sent
	}
	return nil
}
