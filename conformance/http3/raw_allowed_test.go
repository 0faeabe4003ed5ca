package http3

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/quic-go/quic-go/http3"
	"github.com/quic-go/quic-go/quicvarint"
)

// What a peer has to let pass, so that the protocol can be extended (RFC 9114 sections 6.2.3, 7.2.8 and 9).
func TestWhatIsNoBreach(t *testing.T) {
	peer := start(t, alive(echo))
	grease := frame(frameGrease, 1, 2, 3)
	rows := []struct {
		name string
		do   func(*raw)
	}{
		{"unknown frames around a request", func(r *raw) {
			r.greets()
			r.served(r.asks(grease, headers(post("/")...), grease, data("a"), grease, data("b"), grease, headers("x-trailer", "1"), grease), "ab")
		}},
		{"unknown frames on the control stream", func(r *raw) { r.greets(grease, grease) }},
		{"unknown settings", func(r *raw) { r.opens(streamControl, settings(0x21, 5, 0x4242, 1<<40)) }},
		{"a stream of unknown type", func(r *raw) {
			r.greets()
			r.opens(streamGrease, noise(0, 5000))
		}},
		{"a stream that ends before its type", func(r *raw) {
			r.greets()
			if stream, err := r.conn.OpenUniStream(); err == nil {
				stream.Close()
			}
		}},
		{"a stream that is reset before its type", func(r *raw) {
			r.greets()
			if stream, err := r.conn.OpenUniStream(); err == nil {
				stream.CancelWrite(0x10c)
			}
		}},
		{"a request before the control stream", func(r *raw) {
			r.goesOn()
			r.greets()
		}},
		{"GOAWAY with smaller ids", func(r *raw) { r.greets(frame(frameGoaway, 3), frame(frameGoaway, 3), frame(frameGoaway, 0)) }},
		{"MAX_PUSH_ID that grows", func(r *raw) { r.greets(frame(frameMaxPushID, 1), frame(frameMaxPushID, 1), frame(frameMaxPushID, 9)) }},
		{"a priority of a request to come", func(r *raw) { r.greets(frame(framePriorityUpdate, append(varint(0), "u=1, i"...)...)) }},
		{"the streams of QPACK, with a dynamic table of no bytes", func(r *raw) {
			r.greets()
			r.opens(streamEncoder, []byte{0x20})
			r.opens(streamDecoder)
		}},
		{"DATA of no bytes", func(r *raw) {
			r.greets()
			r.served(r.asks(headers(post("/")...), data(""), data("a"), data("")), "a")
		}},
		{"a length longer than need be", func(r *raw) {
			r.greets()
			r.served(r.asks(headers(post("/")...), []byte{0x40, frameData, 0x80, 0, 0, 2}, []byte("ab")), "ab")
		}},
		{"a request byte by byte", func(r *raw) {
			r.greets()
			stream := r.begins()
			for _, octet := range append(headers(post("/", "content-length", "3")...), data("abc")...) {
				stream.Write([]byte{octet})
			}
			stream.Close()
			r.served(stream, "abc")
		}},
		{"host in place of :authority", func(r *raw) {
			r.greets()
			r.served(r.asks(headers(without(":authority", post("/", "host", authority))...), data("a")), "a")
		}},
		{"te: trailers", func(r *raw) {
			r.greets()
			r.served(r.asks(headers(post("/", "te", "trailers")...), data("a")), "a")
		}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			raw := peer.dialRaw(t)
			row.do(raw)
			raw.goesOn()
		})
	}
}

// Some clients end the stream of a request only behind its head, in a packet of its own: it has no body all the same.
func TestTheEndComesLate(t *testing.T) {
	framing := make(chan string, 1)
	peer := start(t, alive(func(w http.ResponseWriter, r *http.Request) {
		framing <- fmt.Sprint(r.TransferEncoding, r.ContentLength)
	}))
	raw := peer.dialRaw(t)
	raw.greets()
	stream := raw.begins(headers(get("/late")...))
	raw.goesOn()
	stream.Close()
	raw.served(stream, "")
	if got := <-framing; !judgesItself() && got != "[] 0" {
		t.Errorf("the upstream sees a body: %s", got)
	}
}

// RFC 9114 section 5.2: GOAWAY says up to which request a peer goes, and the connection ends without an error.
func TestGoawayOfADrain(t *testing.T) {
	release, arrived := make(chan struct{}), make(chan struct{})
	peer := start(t, alive(func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		select {
		case <-release:
			io.WriteString(w, "at last")
		case <-r.Context().Done():
		}
	}))
	raw := peer.dialRaw(t)
	raw.greets()
	control := raw.accepts(streamControl)
	if kind, _, err := readH3Frame(control); err != nil || kind != frameSettings {
		t.Fatalf("the control stream begins with a frame of type %#x, %v", kind, err)
	}
	raw.goesOn()
	stream := raw.asks(headers(get("/long")...))
	wait(t, arrived, "the request arrives")
	peer.drain()
	if id := goaway(t, control); id%4 != 0 || id <= uint64(stream.StreamID()) {
		t.Errorf("GOAWAY with %d after a request on stream %d", id, stream.StreamID())
	}
	close(release)
	raw.served(stream, "at last")
	if judgesItself() {
		raw.conn.CloseWithError(0x100, "")
	} else {
		raw.closes(http3.ErrCodeNoError)
	}
	if err := peer.ended(); err != nil {
		t.Errorf("the peer: %v", err)
	}
}

// RFC 9114 section 5.2: a client may have sent a request before it could know that none is served any more. The connection goes on for a
// moment, so that the client hears that, and can read what it has.
func TestTheConnectionOutlivesGoaway(t *testing.T) {
	if judgesItself() {
		t.Skip("quic-go's server closes the connection at once")
	}
	peer := start(t, alive(http.NotFound))
	raw := peer.dialRaw(t)
	raw.greets()
	control := raw.accepts(streamControl)
	raw.goesOn()
	peer.drain()
	for first := goaway(t, control); first > 4; first = goaway(t, control) {
	}
	late := read(raw.asks(headers(get("/alive")...)))
	if code, reset := late.resetCode(); !reset || code != http3.ErrCodeRequestRejected {
		t.Errorf("a request behind GOAWAY: %d, %v", late.status, late.err)
	}
	raw.closes(http3.ErrCodeNoError)
	if err := peer.ended(); err != nil {
		t.Errorf("the peer: %v", err)
	}
}

// goaway reads until GOAWAY, and returns its id.
func goaway(t *testing.T, control io.Reader) uint64 {
	t.Helper()
	for {
		kind, payload, err := readH3Frame(control)
		if err != nil {
			t.Fatal(err)
		}
		if kind == frameGoaway {
			id, _, err := quicvarint.Parse(payload)
			if err != nil {
				t.Fatal(err)
			}
			return id
		}
	}
}

// RFC 9204 section 2.1: a request may refer to what is inserted before it, or after it if the peer lets streams block.
func TestDynamicTable(t *testing.T) {
	peer := start(t, alive(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Header.Get("X-Dynamic")) }))
	for _, blocks := range []bool{false, true} {
		t.Run(fmt.Sprintf("blocked %v", blocks), func(t *testing.T) {
			raw := peer.dialRaw(t)
			raw.greets()
			allowed := raw.settings()
			if capacity := allowed[0x01]; capacity < 64 || blocks && allowed[0x07] == 0 {
				t.Skipf("the peer allows %d bytes and %d blocked streams", capacity, allowed[0x07])
			}
			// A capacity of 64, and one entry.
			inserts := append([]byte{0x3f, 0x21, 0x49}, "x-dynamic\x09its value"...)
			// One insert is needed; the base is the same, and the last line is the newest entry.
			block := append([]byte{2, 0}, section(get("/")...)[2:]...)
			request := frame(frameHeaders, append(block, 0x80)...)
			encoder := raw.opens(streamEncoder)
			if !blocks {
				raw.writes(encoder, inserts)
			}
			stream := raw.asks(request)
			if blocks {
				raw.goesOn()
				raw.writes(encoder, inserts)
			}
			raw.served(stream, "its value")
			raw.acknowledges(uint64(stream.StreamID()))
			raw.goesOn()
		})
	}
}

// settings are those of the peer.
func (r *raw) settings() map[uint64]uint64 {
	r.t.Helper()
	kind, payload, err := readH3Frame(r.accepts(streamControl))
	if err != nil || kind != frameSettings {
		r.t.Fatalf("the control stream begins with a frame of type %#x, %v", kind, err)
	}
	settings := make(map[uint64]uint64)
	for reader := bytes.NewReader(payload); reader.Len() > 0; {
		name, _ := quicvarint.Read(reader)
		if settings[name], err = quicvarint.Read(reader); err != nil {
			r.t.Fatal(err)
		}
	}
	return settings
}

// acknowledges wants a Section Acknowledgment for a stream with a small id (RFC 9204 section 4.4.1).
func (r *raw) acknowledges(id uint64) {
	r.t.Helper()
	instruction := []byte{0}
	for decoder := r.accepts(streamDecoder); instruction[0]&0x80 == 0; {
		if _, err := io.ReadFull(decoder, instruction); err != nil {
			r.t.Fatal(err)
		}
	}
	if got := uint64(instruction[0] & 0x7f); got != id {
		r.t.Errorf("a section of stream %d is acknowledged, want %d", got, id)
	}
}
