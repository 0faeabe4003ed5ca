package http3

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"encoding/base64"
	"encoding/binary"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/quic-go/quic-go/http3"
)

// RFC 9220: a WebSocket is a stream of its own, and its frames are in DATA frames.
func TestWebSocket(t *testing.T) {
	ended := make(chan struct{}, 1)
	peer := start(t, alive(func(w http.ResponseWriter, r *http.Request) {
		tunnel := acceptWebSocket(t, w, r)
		if tunnel == nil {
			return
		}
		defer tunnel.Close()
		echoFrames(tunnel)
		ended <- struct{}{}
	}))
	client := peer.dial(t)
	t.Run("the upstream closes", func(t *testing.T) {
		tunnel := client.openWebSocket(t)
		sends(t, tunnel, maskedFrame(text, []byte("hello")))
		receives(t, tunnel, text, []byte("hello"))
		long := noise(7, 70_000)
		var sent sync.WaitGroup
		sent.Go(func() { sends(t, tunnel, maskedFrame(binaryData, long)) })
		receives(t, tunnel, binaryData, long)
		sent.Wait()
		sends(t, tunnel, maskedFrame(closing, []byte{0x03, 0xe8}))
		receives(t, tunnel, closing, []byte{0x03, 0xe8})
		if n, err := tunnel.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("after the upstream's end: %d bytes, %v", n, err)
		}
		tunnel.Close()
		wait(t, ended, "the upstream sees the end of the tunnel")
	})
	t.Run("the client closes", func(t *testing.T) {
		tunnel := client.openWebSocket(t)
		sends(t, tunnel, maskedFrame(text, []byte("one")))
		receives(t, tunnel, text, []byte("one"))
		tunnel.Close()
		wait(t, ended, "the upstream sees the end of the tunnel")
	})
	t.Run("the client goes", func(t *testing.T) {
		tunnel := client.openWebSocket(t)
		sends(t, tunnel, maskedFrame(text, []byte("one")))
		receives(t, tunnel, text, []byte("one"))
		tunnel.CancelRead(0x10c)
		tunnel.CancelWrite(0x10c)
		wait(t, ended, "the upstream sees the end of the tunnel")
	})
	client.goesOn(t)
}

func (c *client) openWebSocket(t *testing.T) *http3.RequestStream {
	t.Helper()
	wait(t, c.ReceivedSettings(), "the settings of the peer")
	if !c.Settings().EnableExtendedConnect {
		t.Fatal("the peer does not offer extended CONNECT")
	}
	request := request(t, http.MethodConnect, "/socket?room=1", nil, "Sec-Websocket-Version", "13", "Sec-Websocket-Protocol", "chat",
		"Origin", "https://"+authority)
	request.Proto = "websocket"
	stream, err := c.OpenRequestStream(request.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.SendRequestHeader(request); err != nil {
		t.Fatal(err)
	}
	response, err := stream.ReadResponse()
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK {
		t.Fatalf("extended CONNECT: %d", response.StatusCode)
	}
	field(t, response.Header, "Sec-Websocket-Protocol", "chat")
	// They belong to the handshake of HTTP/1.1.
	field(t, response.Header, "Sec-Websocket-Accept")
	field(t, response.Header, "Upgrade")
	return stream
}

// acceptWebSocket is for the two ways in which a WebSocket arrives: over HTTP/1.1 behind a gateway, else as it was sent.
func acceptWebSocket(t *testing.T, w http.ResponseWriter, r *http.Request) io.ReadWriteCloser {
	if r.RequestURI != "/socket?room=1" || r.Header.Get("Sec-Websocket-Version") != "13" || r.Header.Get("Origin") != "https://"+authority {
		t.Errorf("the upstream got %s %s %v", r.Method, r.RequestURI, r.Header)
	}
	w.Header().Set("Sec-Websocket-Protocol", r.Header.Get("Sec-Websocket-Protocol"))
	if streamer, ok := w.(http3.HTTPStreamer); ok && r.Method == http.MethodConnect {
		w.WriteHeader(http.StatusOK)
		stream, err := streamer.HTTPStream()
		if err != nil {
			t.Error(err)
			return nil
		}
		return stream
	}
	if r.Method != http.MethodGet || r.Header.Get("Upgrade") != "websocket" {
		t.Errorf("the upstream got %s, upgrade %q", r.Method, r.Header.Get("Upgrade"))
	}
	digest := sha1.Sum([]byte(r.Header.Get("Sec-Websocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	w.Header().Set("Sec-Websocket-Accept", base64.StdEncoding.EncodeToString(digest[:]))
	w.Header().Set("Upgrade", "websocket")
	w.Header().Set("Connection", "Upgrade")
	w.WriteHeader(http.StatusSwitchingProtocols)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return nil
	}
	return struct {
		io.Reader
		io.WriteCloser
	}{buffered, conn}
}

const (
	text       = 1
	binaryData = 2
	closing    = 8
)

// maskedFrame is a whole message from a client (RFC 6455 section 5.2).
func maskedFrame(kind byte, payload []byte) []byte {
	mask := []byte{0x37, 0xfa, 0x21, 0x3d}
	frame := append(frameHead(kind, len(payload), 0x80), mask...)
	for i, octet := range payload {
		frame = append(frame, octet^mask[i%4])
	}
	return frame
}

func frameHead(kind byte, length int, masked byte) []byte {
	switch {
	case length < 126:
		return []byte{0x80 | kind, masked | byte(length)}
	case length < 1<<16:
		return binary.BigEndian.AppendUint16([]byte{0x80 | kind, masked | 126}, uint16(length))
	default:
		return binary.BigEndian.AppendUint64([]byte{0x80 | kind, masked | 127}, uint64(length))
	}
}

// readFrame returns what is in a frame, unmasked.
func readFrame(from io.Reader) (kind byte, payload []byte, err error) {
	head := make([]byte, 2)
	if _, err := io.ReadFull(from, head); err != nil {
		return 0, nil, err
	}
	length := uint64(head[1] & 0x7f)
	wide := map[uint64]int{126: 2, 127: 8}[length]
	masked := int(head[1]>>7) * 4
	rest := make([]byte, wide+masked)
	if _, err := io.ReadFull(from, rest); err != nil {
		return 0, nil, err
	}
	if wide > 0 {
		length = binary.BigEndian.Uint64(append(make([]byte, 8-wide), rest[:wide]...))
	}
	if length > 1<<20 {
		return 0, nil, io.ErrShortBuffer
	}
	payload = make([]byte, length)
	if _, err := io.ReadFull(from, payload); err != nil {
		return 0, nil, err
	}
	for i := range payload {
		if masked > 0 {
			payload[i] ^= rest[wide+i%4]
		}
	}
	return head[0] & 0x0f, payload, nil
}

// echoFrames sends back what it gets until the client closes or is gone.
func echoFrames(tunnel io.ReadWriter) {
	from := bufio.NewReader(tunnel)
	for {
		kind, payload, err := readFrame(from)
		if err != nil {
			return
		}
		tunnel.Write(append(frameHead(kind, len(payload), 0), payload...))
		if kind == closing {
			return
		}
	}
}

func sends(t *testing.T, tunnel io.Writer, frame []byte) {
	t.Helper()
	if _, err := tunnel.Write(frame); err != nil {
		t.Error(err)
	}
}

func receives(t *testing.T, tunnel io.Reader, kind byte, payload []byte) {
	t.Helper()
	gotKind, got, err := readFrame(tunnel)
	if err != nil {
		t.Fatal(err)
	}
	if gotKind != kind || !bytes.Equal(got, payload) {
		t.Fatalf("a frame of kind %d: %v", gotKind, same(got, payload))
	}
}

// A gRPC call is a POST whose messages have a byte and their length before them, and whose status is in trailers.
func TestCallLikeGRPC(t *testing.T) {
	peer := start(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/calls.Echo/Say" || r.Header.Get("Te") != "trailers" {
			t.Errorf("the upstream got %s %s, te %q", r.Method, r.URL.Path, r.Header.Get("Te"))
		}
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status, Grpc-Message")
		w.WriteHeader(http.StatusOK)
		w.(http.Flusher).Flush()
		for {
			message, err := readMessage(r.Body)
			if err != nil {
				break
			}
			w.Write(grpcMessage(message))
			w.(http.Flusher).Flush()
		}
		w.Header().Set("Grpc-Status", "0")
		w.Header().Set("Grpc-Message", "all said")
	})
	client := peer.dial(t)
	body, writer := io.Pipe()
	response, err := client.RoundTrip(request(t, http.MethodPost, "/calls.Echo/Say", body, "Content-Type", "application/grpc",
		"Te", "trailers"))
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "application/grpc" {
		t.Fatalf("%d of %s", response.StatusCode, response.Header.Get("Content-Type"))
	}
	for i, length := range []int{0, 5, 100_000} {
		message := noise(uint64(i), length)
		go writer.Write(grpcMessage(message))
		got, err := readMessage(response.Body)
		if err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		if err := same(got, message); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
	}
	writer.Close()
	if rest, err := io.ReadAll(response.Body); err != nil || len(rest) > 0 {
		t.Fatalf("after the last message: %d bytes, %v", len(rest), err)
	}
	field(t, response.Trailer, "Grpc-Status", "0")
	field(t, response.Trailer, "Grpc-Message", "all said")
}

func grpcMessage(content []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(content))), content...)
}

func readMessage(from io.Reader) ([]byte, error) {
	prefix := make([]byte, 5)
	if _, err := io.ReadFull(from, prefix); err != nil {
		return nil, err
	}
	length := binary.BigEndian.Uint32(prefix[1:])
	if length > 1<<20 {
		return nil, io.ErrShortBuffer
	}
	content := make([]byte, length)
	_, err := io.ReadFull(from, content)
	return content, err
}
