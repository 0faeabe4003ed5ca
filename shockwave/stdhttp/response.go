package stdhttp

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"

	"titan.test/shockwave"
	"titan.test/shockwave/parse"
)

// sniffSize is the most bytes that http.DetectContentType looks at.
const sniffSize = 512

// A responseWriter is the response of a net/http handler. Fields are handed to the engine when the status is known;
// bytes go straight through, but for the first ones when the Content-Type is to be guessed from them.
type responseWriter struct {
	*turn
	fields http.Header

	status   int      // 0 until the final WriteHeader
	length   int64    // the Content-Length that the handler set, -1 without
	promised []string // trailers that the head announces
	sniffing bool     // the Content-Type waits for what is in sniffed
	sniffed  []byte
	hijacked bool
}

func (w *responseWriter) Header() http.Header { return w.fields }

// lock takes the turn to write.
func (w *responseWriter) lock() {
	w.writes.Lock()
	w.mu.Lock()
}

func (w *responseWriter) unlock() {
	w.mu.Unlock()
	w.writes.Unlock()
}

func (w *responseWriter) WriteHeader(status int) {
	w.lock()
	defer w.unlock()
	w.writeHeader(status)
}

func (w *responseWriter) writeHeader(status int) {
	switch {
	case status < 100 || status > 599:
		panic(fmt.Sprintf("stdhttp: invalid WriteHeader status %d", status))
	case w.c == nil:
	case w.hijacked:
		w.complain("WriteHeader on a hijacked connection")
	case w.status != 0:
		w.complain("superfluous WriteHeader")
	case status < 200 && status != http.StatusSwitchingProtocols:
		w.interim(status)
	default:
		w.fix(status)
	}
}

// interim sends 1xx with what is in the map. 100 is sent when the body is read and cannot be sent for it.
func (w *responseWriter) interim(status int) {
	if status == http.StatusContinue {
		return
	}
	var lines []string
	w.eachField(func(name, value string) {
		switch name {
		case "Connection", "Content-Length", "Content-Type", "Date", "Server":
			// Of the final response; the engine sends none of them before it.
		default:
			lines = append(lines, name, value)
		}
	})
	_ = w.c.Interim(status, lines...)
}

// fix hands status and fields to the engine: what the map says from now on concerns the trailers alone. The fields of
// 101 wait for Hijack, which writes them.
func (w *responseWriter) fix(status int) {
	w.status = status
	if status == http.StatusSwitchingProtocols {
		return
	}
	_ = w.c.SetStatus(status)
	w.length = -1
	tooLong := false
	w.eachField(func(name, value string) {
		tooLong = w.add(name, value) == shockwave.ErrFieldsTooLong || tooLong
	})
	if tooLong {
		w.refuse()
		return
	}
	for _, list := range w.fields["Trailer"] {
		for name := range strings.SplitSeq(list, ",") {
			w.promised = append(w.promised, textproto.CanonicalMIMEHeaderKey(textproto.TrimString(name)))
		}
	}
	if date, ok := w.fields["Date"]; ok && len(date) == 0 {
		w.c.Del("Date")
	}
	_, typed := w.fields["Content-Type"]
	encoded := w.fields.Get("Content-Encoding") != ""
	w.sniffing = !typed && !encoded && bodyAllowed(status)
}

// add hands a field to the engine. Of Connection that takes what the handler may choose.
func (w *responseWriter) add(name, value string) error {
	if name == "Connection" {
		for option := range strings.SplitSeq(value, ",") {
			_ = w.c.Add(name, textproto.TrimString(option))
		}
		return nil
	}
	err := w.c.Add(name, value)
	if err == nil && name == "Content-Length" {
		w.length, _ = strconv.ParseInt(value, 10, 64)
	}
	return err
}

// refuse responds in place of a handler whose fields exceed the limit: some of
// them would be another response.
func (w *responseWriter) refuse() {
	w.complain("the fields of the response exceed Limits.ResponseFields")
	for name := range w.fields {
		w.c.Del(name)
	}
	w.status, w.length = http.StatusInternalServerError, -1
	_ = w.c.Error(w.status, "")
}

// eachField gives the field lines in the order of their names, in the form in which they may be sent. What nobody
// may send is left out here; Add refuses a Content-Length that is no number.
func (w *responseWriter) eachField(give func(name, value string)) {
	for _, name := range slices.Sorted(maps.Keys(w.fields)) {
		if !parse.ValidName(name) || strings.HasPrefix(name, http.TrailerPrefix) || name == "Transfer-Encoding" {
			continue
		}
		for _, value := range w.fields[name] {
			give(name, clean(value))
		}
	}
}

// clean makes a value one that may be sent: control bytes become spaces.
func clean(value string) string {
	if parse.ValidValue(value) {
		return value
	}
	return textproto.TrimString(strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r == 0x7f {
			return ' '
		}
		return r
	}, value))
}

func bodyAllowed(status int) bool {
	return status >= 200 && status != http.StatusNoContent && status != http.StatusNotModified
}

func (w *responseWriter) Write(p []byte) (int, error) {
	w.lock()
	defer w.unlock()
	if err := w.ready(len(p)); err != nil {
		return 0, err
	}
	if !w.sniffing {
		n, err := w.c.Write(p)
		return n, inTheirWords(err)
	}
	if w.length >= 0 && int64(len(w.sniffed)+len(p)) > w.length {
		return 0, http.ErrContentLength
	}
	taken := min(len(p), sniffSize-len(w.sniffed))
	w.sniffed = append(w.sniffed, p[:taken]...)
	if len(w.sniffed) < sniffSize {
		return taken, nil
	}
	if err := w.settleType(); err != nil {
		return 0, err
	}
	if taken == len(p) {
		return taken, nil
	}
	n, err := w.c.Write(p[taken:])
	return taken + n, inTheirWords(err)
}

func (w *responseWriter) WriteString(s string) (int, error) {
	w.lock()
	if w.status != 0 && !w.sniffing {
		defer w.unlock()
		if err := w.ready(len(s)); err != nil {
			return 0, err
		}
		n, err := w.c.WriteString(s)
		return n, inTheirWords(err)
	}
	w.unlock()
	return w.Write([]byte(s))
}

// errOver is what goroutines get that write when the handler has returned.
var errOver = errors.New("stdhttp: the handler has returned")

// ready reports whether n bytes may be written, and sends 200 when nothing else was said.
func (w *responseWriter) ready(n int) error {
	switch {
	case w.c == nil:
		return errOver
	case w.hijacked:
		return http.ErrHijacked
	case w.status == 0:
		w.writeHeader(http.StatusOK)
	}
	if n > 0 && !bodyAllowed(w.status) {
		return http.ErrBodyNotAllowed
	}
	return nil
}

// settleType guesses the Content-Type from what is there and lets that go.
func (w *responseWriter) settleType() error {
	if !w.sniffing {
		return nil
	}
	w.sniffing = false
	if len(w.sniffed) == 0 {
		return nil
	}
	_ = w.c.Set("Content-Type", http.DetectContentType(w.sniffed))
	_, err := w.c.Write(w.sniffed)
	w.sniffed = nil
	return inTheirWords(err)
}

// ReadFrom writes what src gives.
func (w *responseWriter) ReadFrom(src io.Reader) (int64, error) {
	buf := pieces.Get().(*piece)
	defer pieces.Put(buf)
	// The wrapper keeps io.CopyBuffer from calling ReadFrom again.
	return io.CopyBuffer(struct{ io.Writer }{w}, src, buf[:])
}

func (w *responseWriter) Flush() { _ = w.FlushError() }

// FlushError is what http.ResponseController calls for Flush.
func (w *responseWriter) FlushError() error {
	w.lock()
	defer w.unlock()
	if err := w.ready(0); err != nil {
		return err
	}
	if err := w.settleType(); err != nil {
		return err
	}
	return inTheirWords(w.c.Flush())
}

// SetReadDeadline is what http.ResponseController calls; see [shockwave.Ctx.SetReadDeadline].
func (w *responseWriter) SetReadDeadline(t time.Time) error {
	return w.setDeadline((*shockwave.Ctx).SetReadDeadline, t)
}

// SetWriteDeadline is what http.ResponseController calls; see [shockwave.Ctx.SetWriteDeadline].
func (w *responseWriter) SetWriteDeadline(t time.Time) error {
	return w.setDeadline((*shockwave.Ctx).SetWriteDeadline, t)
}

func (w *responseWriter) setDeadline(set func(*shockwave.Ctx, time.Time) error, t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.c == nil {
		return errOver
	}
	return inTheirWords(set(w.c, t))
}

// EnableFullDuplex has nothing to do: the engine never reads a body because a response begins.
func (w *responseWriter) EnableFullDuplex() error { return nil }

// finish says 200 if the handler said nothing, and sends the trailers.
func (w *responseWriter) finish() {
	w.lock()
	defer w.unlock()
	if w.hijacked {
		return
	}
	if w.status == 0 {
		w.writeHeader(http.StatusOK)
	}
	_ = w.settleType()
	for _, name := range w.promised {
		w.trailer(name, w.fields[name])
	}
	for name, values := range w.fields {
		if name, ok := strings.CutPrefix(name, http.TrailerPrefix); ok {
			w.trailer(textproto.CanonicalMIMEHeaderKey(name), values)
		}
	}
	// If nothing was written this is the response; else it changes nothing. Without it the engine would respond for a
	// handler that met a broken body and said nothing.
	_ = w.c.Send("", nil)
}

func (w *responseWriter) trailer(name string, values []string) {
	for _, value := range values {
		if w.c.Trailer(name, clean(value)) == shockwave.ErrFieldsTooLong {
			w.complain("trailers exceed Limits.ResponseFields")
			return
		}
	}
}

// errReading is what Hijack returns while a goroutine waits for the body.
var errReading = errors.New("stdhttp: the body is being read")

// Hijack takes the connection over. After WriteHeader(101) it writes that head first, as net/http does.
func (w *responseWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	if !w.reads.TryLock() {
		return nil, nil, errReading
	}
	defer w.reads.Unlock()
	w.lock()
	defer w.unlock()
	if w.c == nil || w.hijacked {
		return nil, nil, http.ErrHijacked
	}
	conn, received, err := w.c.Hijack()
	if err != nil {
		return nil, nil, inTheirWords(err)
	}
	w.hijacked = true
	if w.status == http.StatusSwitchingProtocols {
		if err := w.writeSwitch(conn); err != nil {
			conn.Close()
			return nil, nil, err
		}
	}
	return conn, bufio.NewReadWriter(readAhead(conn, received), bufio.NewWriter(conn)), nil
}

func (w *responseWriter) writeSwitch(conn net.Conn) error {
	head := []byte("HTTP/1.1 101 Switching Protocols\r\n")
	w.eachField(func(name, value string) { head = appendField(head, name, value) })
	_, err := conn.Write(append(head, "\r\n"...))
	return err
}

// readAhead gives a reader of conn in whose buffer is what the engine had received: callers look at Buffered, and read
// conn itself when that is 0.
func readAhead(conn net.Conn, received []byte) *bufio.Reader {
	if len(received) == 0 {
		return bufio.NewReader(conn)
	}
	first := &ahead{received, conn}
	r := bufio.NewReaderSize(first, max(4<<10, len(received)))
	_, _ = r.Peek(len(received))
	return r
}

// An ahead gives some bytes before those of a connection.
type ahead struct {
	data []byte
	net.Conn
}

func (a *ahead) Read(p []byte) (int, error) {
	if len(a.data) == 0 {
		return a.Conn.Read(p)
	}
	n := copy(p, a.data)
	a.data = a.data[n:]
	return n, nil
}

// complain reports a handler's fault that has no error to return it by.
func (w *responseWriter) complain(what string) {
	log := w.c.Server().ErrorLog
	if log == nil {
		log = slog.Default()
	}
	log.Warn("stdhttp: "+what, "target", string(w.c.Target()))
}

// inTheirWords gives the error of net/http that means the same.
func inTheirWords(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, shockwave.ErrNoBody):
		return http.ErrBodyNotAllowed
	case errors.Is(err, shockwave.ErrContentLength):
		return http.ErrContentLength
	case errors.Is(err, shockwave.ErrHijacked):
		return http.ErrHijacked
	}
	return err
}
