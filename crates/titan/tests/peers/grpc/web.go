package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strings"

	"google.golang.org/grpc/codes"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/protobuf/proto"
)

// A browser speaks gRPC-Web over net/http, as PROTOCOL-WEB.md has it.
type browser struct {
	url    string
	client *http.Client
	text   bool
}

// What a call has come to.
type outcome struct {
	messages [][]byte
	trailers http.Header
}

// webCases has a browser make calls that grpc-go answers.
func webCases(ctx context.Context, c client, text bool) error {
	b := browser{"http://" + c.address, &http.Client{}, text}
	if c.tls != nil {
		settings := &tls.Config{RootCAs: c.tls, ServerName: "localhost"}
		b.url, b.client = "https://"+c.address, &http.Client{Transport: &http.Transport{TLSClientConfig: settings}}
	}
	return errors.Join(b.unary(ctx), b.streaming(ctx), b.failing(ctx), b.lost(ctx))
}

func (b browser) unary(ctx context.Context) error {
	body := bytes.Repeat([]byte("x"), 271828)
	request := &testpb.SimpleRequest{ResponseSize: 314159, Payload: &testpb.Payload{Body: body}}
	got, err := b.call(ctx, "/grpc.testing.TestService/UnaryCall", request)
	if err != nil {
		return err
	}
	var answer testpb.SimpleResponse
	if len(got.messages) != 1 || proto.Unmarshal(got.messages[0], &answer) != nil {
		return fmt.Errorf("web unary: %d messages", len(got.messages))
	}
	if size := len(answer.GetPayload().GetBody()); size != 314159 {
		return fmt.Errorf("web unary: %d bytes", size)
	}
	return got.is(codes.OK)
}

func (b browser) streaming(ctx context.Context) error {
	request := &testpb.StreamingOutputCallRequest{}
	for _, size := range []int32{1, 31415, 9, 2653, 58979} {
		request.ResponseParameters = append(request.ResponseParameters, &testpb.ResponseParameters{Size: size})
	}
	got, err := b.call(ctx, "/grpc.testing.TestService/StreamingOutputCall", request)
	if err != nil {
		return err
	}
	for number, message := range got.messages {
		var answer testpb.StreamingOutputCallResponse
		if err := proto.Unmarshal(message, &answer); err != nil {
			return err
		}
		wanted := request.GetResponseParameters()[number].GetSize()
		if size := len(answer.GetPayload().GetBody()); size != int(wanted) {
			return fmt.Errorf("web streaming: %d bytes instead of %d", size, wanted)
		}
	}
	if len(got.messages) != 5 {
		return fmt.Errorf("web streaming: %d messages", len(got.messages))
	}
	return got.is(codes.OK)
}

func (b browser) failing(ctx context.Context) error {
	status := &testpb.EchoStatus{Code: int32(codes.DataLoss), Message: "lost"}
	request := &testpb.SimpleRequest{ResponseStatus: status}
	got, err := b.call(ctx, "/grpc.testing.TestService/UnaryCall", request)
	if err != nil {
		return err
	}
	if message := got.trailers.Get("grpc-message"); message != "lost" {
		return fmt.Errorf("web failing: %q", message)
	}
	return got.is(codes.DataLoss)
}

func (b browser) lost(ctx context.Context) error {
	got, err := b.call(ctx, "/grpc.testing.None/None", &testpb.Empty{})
	if err != nil {
		return err
	}
	return got.is(codes.Unimplemented)
}

func (o outcome) is(wanted codes.Code) error {
	if status := o.trailers.Get("grpc-status"); status != fmt.Sprint(uint32(wanted)) {
		return fmt.Errorf("web: grpc-status %q instead of %d: %v", status, wanted, o.trailers)
	}
	return nil
}

func (b browser) call(ctx context.Context, method string, message proto.Message) (outcome, error) {
	data, err := proto.Marshal(message)
	if err != nil {
		return outcome{}, err
	}
	body := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(data))), data...)
	mediaType := "application/grpc-web+proto"
	if b.text {
		mediaType = "application/grpc-web-text+proto"
		body = []byte(base64.StdEncoding.EncodeToString(body))
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url+method, bytes.NewReader(body))
	if err != nil {
		return outcome{}, err
	}
	request.Header.Set("Content-Type", mediaType)
	request.Header.Set("X-Grpc-Web", "1")
	answer, err := b.client.Do(request)
	if err != nil {
		return outcome{}, err
	}
	defer answer.Body.Close()
	if got := answer.Header.Get("Content-Type"); answer.StatusCode != http.StatusOK || !strings.HasPrefix(mediaType, got) {
		return outcome{}, fmt.Errorf("web: %s, %s", answer.Status, got)
	}
	var source io.Reader = answer.Body
	if b.text {
		source = &groups{source: bufio.NewReader(answer.Body)}
	}
	return read(source, answer.Header)
}

// read takes a response apart: frames of messages, and the last one, of trailers.
func read(source io.Reader, head http.Header) (outcome, error) {
	got := outcome{trailers: head}
	for {
		var prefix [5]byte
		if _, err := io.ReadFull(source, prefix[:]); err == io.EOF {
			return got, nil
		} else if err != nil {
			return got, err
		}
		frame := make([]byte, binary.BigEndian.Uint32(prefix[1:]))
		if _, err := io.ReadFull(source, frame); err != nil {
			return got, err
		}
		if prefix[0]&0x80 == 0 {
			got.messages = append(got.messages, frame)
			continue
		}
		lines := textproto.NewReader(bufio.NewReader(bytes.NewReader(append(frame, "\r\n"...))))
		trailers, err := lines.ReadMIMEHeader()
		if err != nil {
			return got, err
		}
		got.trailers = http.Header(trailers)
	}
}

// groups reads base64 that may be padded after any group.
type groups struct {
	source *bufio.Reader
	rest   []byte
}

func (g *groups) Read(out []byte) (int, error) {
	if len(g.rest) == 0 {
		var group [4]byte
		if _, err := io.ReadFull(g.source, group[:]); err != nil {
			return 0, err
		}
		var err error
		if g.rest, err = base64.StdEncoding.DecodeString(string(group[:])); err != nil {
			return 0, err
		}
	}
	count := copy(out, g.rest)
	g.rest = g.rest[count:]
	return count, nil
}
