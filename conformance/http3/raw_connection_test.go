package http3

import (
	"testing"

	"github.com/quic-go/quic-go/http3"
)

const (
	decompressionFailed = http3.ErrCode(0x200)
	encoderStreamError  = http3.ErrCode(0x201)
	decoderStreamError  = http3.ErrCode(0x202)
)

// A breach of the protocol for which the whole connection ends.
type breach struct {
	name string
	code http3.ErrCode
	// lax says that quic-go's server lets it pass, or has another code for it.
	lax bool
	do  func(*raw)
}

var breaches = []breach{
	// RFC 9114 section 6.2.
	{"a second control stream", http3.ErrCodeStreamCreationError, false, func(r *raw) {
		r.greets()
		r.greets()
	}},
	{"a push stream", http3.ErrCodeStreamCreationError, false, func(r *raw) {
		r.greets()
		r.opens(streamPush, varint(0))
	}},
	{"the control stream ends", http3.ErrCodeClosedCriticalStream, false, func(r *raw) {
		r.greets().Close()
	}},
	{"the control stream ends before SETTINGS", http3.ErrCodeClosedCriticalStream, false, func(r *raw) {
		r.opens(streamControl).Close()
	}},
	{"the control stream is reset", http3.ErrCodeClosedCriticalStream, false, func(r *raw) {
		control := r.greets()
		r.goesOn()
		control.CancelWrite(0x100)
	}},

	// RFC 9114 section 7.1.
	{"HEADERS cut by the end of the stream", http3.ErrCodeFrameError, true, func(r *raw) {
		r.greets()
		whole := headers(get("/bad")...)
		r.asks(whole[:len(whole)-1])
	}},
	{"DATA cut by the end of the stream", http3.ErrCodeFrameError, true, func(r *raw) {
		r.greets()
		r.asks(headers(post("/bad")...), []byte{frameData, 10}, []byte("nine byte"))
	}},
	{"a frame whose length is cut", http3.ErrCodeFrameError, true, func(r *raw) {
		r.greets()
		r.asks(headers(post("/bad")...), []byte{frameData, 0x40})
	}},
	{"an unknown frame cut by the end of the stream", http3.ErrCodeFrameError, true, func(r *raw) {
		r.greets()
		r.asks(headers(post("/bad")...), []byte{frameGrease, 10, 1, 2, 3})
	}},
	{"SETTINGS with half a setting", http3.ErrCodeFrameError, true, func(r *raw) {
		r.opens(streamControl, frame(frameSettings, 0x06))
	}},
	{"GOAWAY longer than its id", http3.ErrCodeFrameError, false, func(r *raw) {
		r.greets(frame(frameGoaway, 0, 0))
	}},
	{"MAX_PUSH_ID without an id", http3.ErrCodeFrameError, true, func(r *raw) {
		r.greets(frame(frameMaxPushID))
	}},

	// RFC 9114 sections 4.1 and 7.2: frames where they do not belong.
	{"DATA before HEADERS", http3.ErrCodeFrameUnexpected, false, func(r *raw) {
		r.greets()
		r.asks(data("early"), headers(post("/bad")...))
	}},
	{"HEADERS after trailers", http3.ErrCodeFrameUnexpected, true, func(r *raw) {
		r.greets()
		r.asks(headers(post("/bad")...), data("body"), headers("x-trailer", "1"), headers("x-trailer", "2"))
	}},
	{"DATA after trailers", http3.ErrCodeFrameUnexpected, true, func(r *raw) {
		r.greets()
		r.asks(headers(post("/bad")...), data("body"), headers("x-trailer", "1"), data("more"))
	}},
	{"SETTINGS on a request stream", http3.ErrCodeFrameUnexpected, false, func(r *raw) {
		r.greets()
		r.asks(frame(frameSettings), headers(get("/bad")...))
	}},
	{"CANCEL_PUSH on a request stream", http3.ErrCodeFrameUnexpected, true, func(r *raw) {
		r.greets()
		r.asks(frame(frameCancelPush, 0), headers(get("/bad")...))
	}},
	{"GOAWAY on a request stream", http3.ErrCodeFrameUnexpected, false, func(r *raw) {
		r.greets()
		r.asks(frame(frameGoaway, 0), headers(get("/bad")...))
	}},
	{"MAX_PUSH_ID on a request stream", http3.ErrCodeFrameUnexpected, true, func(r *raw) {
		r.greets()
		r.asks(frame(frameMaxPushID, 0), headers(get("/bad")...))
	}},
	{"PUSH_PROMISE of a client", http3.ErrCodeFrameUnexpected, true, func(r *raw) {
		r.greets()
		r.asks(headers(post("/bad")...), frame(framePushPromise, append([]byte{0}, section(get("/pushed")...)...)...))
	}},
	{"DATA on the control stream", http3.ErrCodeFrameUnexpected, false, func(r *raw) {
		r.greets(data("here"))
	}},
	{"HEADERS on the control stream", http3.ErrCodeFrameUnexpected, false, func(r *raw) {
		r.greets(headers(get("/bad")...))
	}},
	{"PUSH_PROMISE on the control stream", http3.ErrCodeFrameUnexpected, true, func(r *raw) {
		r.greets(frame(framePushPromise, 0))
	}},
	{"PING of HTTP/2 on the control stream", http3.ErrCodeFrameUnexpected, false, func(r *raw) {
		r.greets(frame(0x06, 0, 0, 0, 0, 0, 0, 0, 0))
	}},
	{"PRIORITY of HTTP/2 on a request stream", http3.ErrCodeFrameUnexpected, false, func(r *raw) {
		r.greets()
		r.asks(frame(0x02, 0, 0, 0, 0, 0), headers(get("/bad")...))
	}},

	// RFC 9114 section 7.2.4.
	{"SETTINGS twice", http3.ErrCodeFrameUnexpected, false, func(r *raw) {
		r.greets(frame(frameSettings))
	}},
	{"MAX_PUSH_ID before SETTINGS", http3.ErrCodeMissingSettings, true, func(r *raw) {
		r.opens(streamControl, frame(frameMaxPushID, 0), frame(frameSettings))
	}},
	{"an unknown frame before SETTINGS", http3.ErrCodeMissingSettings, true, func(r *raw) {
		r.opens(streamControl, frame(frameGrease), frame(frameSettings))
	}},
	{"GOAWAY before SETTINGS", http3.ErrCodeMissingSettings, false, func(r *raw) {
		r.opens(streamControl, frame(frameGoaway, 0), frame(frameSettings))
	}},
	{"ENABLE_PUSH of HTTP/2", http3.ErrCodeSettingsError, true, func(r *raw) { r.opens(streamControl, settings(0x02, 0)) }},
	{"MAX_CONCURRENT_STREAMS of HTTP/2", http3.ErrCodeSettingsError, true, func(r *raw) { r.opens(streamControl, settings(0x03, 1)) }},
	{"INITIAL_WINDOW_SIZE of HTTP/2", http3.ErrCodeSettingsError, true, func(r *raw) { r.opens(streamControl, settings(0x04, 1)) }},
	{"MAX_FRAME_SIZE of HTTP/2", http3.ErrCodeSettingsError, true, func(r *raw) { r.opens(streamControl, settings(0x05, 1)) }},
	{"a setting twice", http3.ErrCodeSettingsError, true, func(r *raw) {
		r.opens(streamControl, settings(0x06, 4096, 0x06, 4096))
	}},

	// RFC 9114 sections 5.2, 7.2.3, 7.2.6 and 7.2.7.
	{"GOAWAY with a greater id than before", http3.ErrCodeIDError, true, func(r *raw) {
		r.greets(frame(frameGoaway, 1), frame(frameGoaway, 2))
	}},
	{"MAX_PUSH_ID less than before", http3.ErrCodeIDError, true, func(r *raw) {
		r.greets(frame(frameMaxPushID, 2), frame(frameMaxPushID, 1))
	}},
	{"CANCEL_PUSH beyond MAX_PUSH_ID", http3.ErrCodeIDError, true, func(r *raw) {
		r.greets(frame(frameMaxPushID, 2), frame(frameCancelPush, 3))
	}},

	// RFC 9204 sections 2.2 and 4.
	{"a static entry that there is not", decompressionFailed, true, func(r *raw) {
		r.greets()
		r.asks(frame(frameHeaders, 0, 0, 0xff, 0x24))
	}},
	{"a dynamic entry without any", decompressionFailed, true, func(r *raw) {
		r.greets()
		r.asks(frame(frameHeaders, 0, 0, 0x80))
	}},
	{"more inserts than there can be", decompressionFailed, true, func(r *raw) {
		r.greets()
		r.asks(frame(frameHeaders, 0xff, 0xff, 0xff, 0x7f, 0, 0x80))
	}},
	{"an empty field section", decompressionFailed, true, func(r *raw) {
		r.greets()
		r.asks(frame(frameHeaders))
	}},
	{"a field line that is cut", decompressionFailed, true, func(r *raw) {
		r.greets()
		whole := section(get("/bad", "x-field", "its value")...)
		r.asks(frame(frameHeaders, whole[:len(whole)-3]...))
	}},
	{"a Huffman code that is none", decompressionFailed, true, func(r *raw) {
		r.greets()
		// A literal name of four bytes, all of them EOS (RFC 7541 section 5.2).
		r.asks(frame(frameHeaders, 0, 0, 0x2c, 0xff, 0xff, 0xff, 0xff, 0x00))
	}},
	{"garbage for a field section", decompressionFailed, true, func(r *raw) {
		r.greets()
		r.asks(frame(frameHeaders, append([]byte{0, 0}, noise(9, 200)...)...))
	}},
	{"a dynamic table larger than allowed", encoderStreamError, true, func(r *raw) {
		r.greets()
		r.opens(streamEncoder, []byte{0x3f, 0xff, 0xff, 0xff, 0x7f})
	}},
	{"an insertion with a static name that there is not", encoderStreamError, true, func(r *raw) {
		r.greets()
		r.opens(streamEncoder, []byte{0x20, 0xff, 0x24, 0x01, 'v'})
	}},
	{"a duplicate of nothing", encoderStreamError, true, func(r *raw) {
		r.greets()
		r.opens(streamEncoder, []byte{0x00})
	}},
	{"an increment of nothing", decoderStreamError, true, func(r *raw) {
		r.greets()
		r.opens(streamDecoder, []byte{0x00})
	}},
	{"an increment beyond what was sent", decoderStreamError, true, func(r *raw) {
		r.greets()
		r.opens(streamDecoder, []byte{0x3f, 0xff, 0x7f})
	}},
	{"an acknowledgment of no section", decoderStreamError, true, func(r *raw) {
		r.greets()
		r.opens(streamDecoder, []byte{0xff, 0xff, 0x7f})
	}},
	{"a second encoder stream", http3.ErrCodeStreamCreationError, false, func(r *raw) {
		r.greets()
		r.opens(streamEncoder)
		r.opens(streamEncoder)
	}},
	{"a second decoder stream", http3.ErrCodeStreamCreationError, false, func(r *raw) {
		r.greets()
		r.opens(streamDecoder)
		r.opens(streamDecoder)
	}},
	{"the encoder stream ends", http3.ErrCodeClosedCriticalStream, true, func(r *raw) {
		r.greets()
		r.opens(streamEncoder).Close()
	}},
	{"the decoder stream ends", http3.ErrCodeClosedCriticalStream, true, func(r *raw) {
		r.greets()
		r.opens(streamDecoder).Close()
	}},
}

func TestBreachesOfTheProtocol(t *testing.T) {
	peer := start(t, alive(readAll))
	for _, breach := range breaches {
		t.Run(breach.name, func(t *testing.T) {
			if breach.lax && judgesItself() {
				t.Skip("quic-go's server is lax here")
			}
			raw := peer.dialRaw(t)
			breach.do(raw)
			raw.closes(breach.code)
			peer.unharmed(t)
		})
	}
}
