package http3

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlog"
	"github.com/quic-go/quic-go/qlogwriter"
)

// RFC 9000 section 8.1.3: a client that comes back with a token need not show again that it receives what is sent to its address. Section
// 8.1.4: a token is good once.
func TestReturningClientsSkipRetry(t *testing.T) {
	if judgesItself() {
		t.Skip("quic-go's server takes a token again")
	}
	peer := startWith(t, "retry_above: 0", alive(http.NotFound))
	tokens := &tokens{TokenStore: quic.NewLRUTokenStore(1, 8), came: make(chan struct{}, 8)}
	visits := func(want int32, visit string) {
		t.Helper()
		retries := &retries{}
		config := clientConfig()
		config.TokenStore = tokens
		config.Tracer = func(context.Context, bool, quic.ConnectionID) qlogwriter.Trace { return retries }
		client := speak(peer.dialQUIC(t, peer.tls(), config))
		client.goesOn(t)
		wait(t, tokens.came, "a token")
		client.CloseWithError(0x100, "")
		if got := retries.count.Load(); got != want {
			t.Errorf("%s: %d Retry packets, want %d", visit, got, want)
		}
	}
	visits(1, "the first visit")
	visits(0, "with a token")
	visits(0, "with another token")
	tokens.repeat()
	visits(1, "with a token that was used")
	visits(0, "with a token again")
}

// tokens keeps what a client comes back with, and says when there is something.
type tokens struct {
	quic.TokenStore
	came chan struct{}

	lock sync.Mutex
	used *quic.ClientToken
	next *quic.ClientToken
}

// repeat has the token that was used last used again.
func (k *tokens) repeat() {
	k.lock.Lock()
	defer k.lock.Unlock()
	k.next = k.used
}

func (k *tokens) Pop(key string) *quic.ClientToken {
	k.lock.Lock()
	defer k.lock.Unlock()
	token := k.next
	if token == nil {
		token = k.TokenStore.Pop(key)
	}
	k.used, k.next = token, nil
	return token
}

func (k *tokens) Put(key string, token *quic.ClientToken) {
	k.TokenStore.Put(key, token)
	select {
	case k.came <- struct{}{}:
	default:
	}
}

// retries counts the Retry packets that have come.
type retries struct{ count atomic.Int32 }

func (r *retries) AddProducer() qlogwriter.Recorder { return r }
func (r *retries) SupportsSchemas(string) bool      { return true }
func (r *retries) Close() error                     { return nil }

func (r *retries) RecordEvent(event qlogwriter.Event) {
	received, ok := event.(qlog.PacketReceived)
	if ok && received.Header.PacketType == qlog.PacketTypeRetry {
		r.count.Add(1)
	}
}
