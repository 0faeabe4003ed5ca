package http3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/quic-go/qpack"
	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"
)

// Types of frames and streams (RFC 9114 sections 6.2 and 7.2, RFC 9204 section 4.2, RFC 9218 section 7.1).
const (
	frameData           = 0x00
	frameHeaders        = 0x01
	frameCancelPush     = 0x03
	frameSettings       = 0x04
	framePushPromise    = 0x05
	frameGoaway         = 0x07
	frameMaxPushID      = 0x0d
	frameGrease         = 0x21
	framePriorityUpdate = 0xf0700

	streamControl = 0x00
	streamPush    = 0x01
	streamEncoder = 0x02
	streamDecoder = 0x03
	streamGrease  = 0x21
)

// A raw connection sends what it is told, whether HTTP/3 allows it or not.
type raw struct {
	t    *testing.T
	conn *quic.Conn
	// accepted are the peer's unidirectional streams by type, without it.
	accepted map[byte]*quic.ReceiveStream
}

func (p *peer) dialRaw(t *testing.T) *raw {
	t.Helper()
	return &raw{t, p.dialQUIC(t, p.tls(), clientConfig()), make(map[byte]*quic.ReceiveStream)}
}

// opens sends a unidirectional stream of this type with these bytes, which stays open.
func (r *raw) opens(kind uint64, content ...[]byte) *quic.SendStream {
	r.t.Helper()
	stream, err := r.conn.OpenUniStream()
	if err != nil {
		r.t.Fatal(err)
	}
	r.writes(stream, quicvarint.Append(nil, kind), bytes.Join(content, nil))
	return stream
}

// greets opens the control stream as a client should.
func (r *raw) greets(content ...[]byte) *quic.SendStream {
	r.t.Helper()
	return r.opens(streamControl, append([][]byte{frame(frameSettings)}, content...)...)
}

// writes ignores errors: the peer may have closed the connection, and with what is seen elsewhere.
func (r *raw) writes(stream io.Writer, content ...[]byte) {
	stream.Write(bytes.Join(content, nil))
}

// begins sends the beginning of a request, asks all of one.
func (r *raw) begins(content ...[]byte) *quic.Stream {
	r.t.Helper()
	stream, err := r.conn.OpenStreamSync(patiently(r.t))
	if err != nil {
		r.t.Fatal(err)
	}
	r.writes(stream, content...)
	return stream
}

func (r *raw) asks(content ...[]byte) *quic.Stream {
	r.t.Helper()
	stream := r.begins(content...)
	stream.Close()
	return stream
}

// closes wants the peer to close the connection with this code.
func (r *raw) closes(want http3.ErrCode) {
	r.t.Helper()
	wait(r.t, r.conn.Context().Done(), fmt.Sprintf("the end of the connection with %v", want))
	err := context.Cause(r.conn.Context())
	closed, ok := errors.AsType[*quic.ApplicationError](err)
	if !ok || !closed.Remote || http3.ErrCode(closed.ErrorCode) != want {
		r.t.Errorf("the connection ends with %v, want %v", err, want)
	}
}

// served wants a whole response of 200 with this body.
func (r *raw) served(stream *quic.Stream, body string) {
	r.t.Helper()
	got := read(stream)
	if got.err != io.EOF || got.status != http.StatusOK || string(got.body) != body {
		r.t.Errorf("%d %q, %v, want 200 %q", got.status, got.body, got.err, body)
	}
}

// goesOn wants the connection to serve another stream.
func (r *raw) goesOn() {
	r.t.Helper()
	r.served(r.asks(headers(get("/alive")...)), "alive")
}

// accepts finds the peer's stream of this type.
func (r *raw) accepts(kind byte) *quic.ReceiveStream {
	r.t.Helper()
	for r.accepted[kind] == nil {
		stream, err := r.conn.AcceptUniStream(patiently(r.t))
		if err != nil {
			r.t.Fatal(err)
		}
		head := make([]byte, 1)
		if _, err := io.ReadFull(stream, head); err != nil {
			r.t.Fatal(err)
		}
		stream.SetReadDeadline(time.Now().Add(patience))
		r.accepted[head[0]] = stream
	}
	return r.accepted[kind]
}

// frame is one with its length.
func frame(kind uint64, payload ...byte) []byte {
	return append(quicvarint.Append(quicvarint.Append(nil, kind), uint64(len(payload))), payload...)
}

func varint(value uint64) []byte { return quicvarint.Append(nil, value) }

// settings are identifiers and values in turn.
func settings(pairs ...uint64) []byte {
	var payload []byte
	for _, number := range pairs {
		payload = quicvarint.Append(payload, number)
	}
	return frame(frameSettings, payload...)
}

// get is the head of a request as names and values in turn, with further fields.
func get(path string, fields ...string) []string {
	return append([]string{":method", "GET", ":scheme", "https", ":authority", authority, ":path", path}, fields...)
}

func post(path string, fields ...string) []string {
	return append([]string{":method", "POST", ":scheme", "https", ":authority", authority, ":path", path}, fields...)
}

// without leaves out a field.
func without(name string, fields []string) []string {
	var rest []string
	for i := 0; i < len(fields); i += 2 {
		if fields[i] != name {
			rest = append(rest, fields[i], fields[i+1])
		}
	}
	return rest
}

// headers is a HEADERS frame of names and values in turn.
func headers(fields ...string) []byte {
	return frame(frameHeaders, section(fields...)...)
}

func section(fields ...string) []byte {
	var block bytes.Buffer
	encoder := qpack.NewEncoder(&block)
	for i := 0; i < len(fields); i += 2 {
		encoder.WriteField(qpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return block.Bytes()
}

func data(text string) []byte { return frame(frameData, []byte(text)...) }

// A received message is what comes on a stream until its end: io.EOF, or what else it ends with.
type received struct {
	status int
	body   []byte
	err    error
}

func read(stream *quic.Stream) received {
	stream.SetReadDeadline(time.Now().Add(patience))
	var got received
	for {
		kind, payload, err := readH3Frame(stream)
		if err != nil {
			got.err = err
			return got
		}
		switch kind {
		case frameData:
			got.body = append(got.body, payload...)
		case frameHeaders:
			if got.err = got.decode(payload); got.err != nil {
				return got
			}
		}
	}
}

// decode reads a status, which trailers do not have.
func (r *received) decode(block []byte) error {
	next := qpack.NewDecoder().Decode(block)
	for {
		field, err := next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if field.Name == ":status" {
			fmt.Sscan(field.Value, &r.status)
		}
	}
}

// readH3Frame returns io.EOF only where a frame could begin.
func readH3Frame(from io.Reader) (kind uint64, payload []byte, err error) {
	reader := quicvarint.NewReader(from)
	if kind, err = quicvarint.Read(reader); err != nil {
		return 0, nil, err
	}
	length, err := quicvarint.Read(reader)
	if err == nil && length > 1<<20 {
		err = io.ErrShortBuffer
	}
	if err != nil {
		return 0, nil, cut(err)
	}
	payload = make([]byte, length)
	_, err = io.ReadFull(reader, payload)
	return kind, payload, cut(err)
}

func cut(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// resetCode is the code with which the peer has reset the stream of a message.
func (r received) resetCode() (http3.ErrCode, bool) {
	reset, ok := errors.AsType[*quic.StreamError](r.err)
	if !ok || !reset.Remote {
		return 0, false
	}
	return http3.ErrCode(reset.ErrorCode), true
}

// unharmed wants the peer to serve a new connection.
func (p *peer) unharmed(t *testing.T) {
	t.Helper()
	p.dial(t).goesOn(t)
}
