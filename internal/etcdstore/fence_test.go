package etcdstore

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Every write in a space has a fence. What is not asked for need not be made.
func TestTransactionsAskForOneKey(t *testing.T) {
	for name, tc := range map[string]struct {
		expected int64 // revision
		answer   *etcdserverpb.TxnResponse
		asked    []string
		refused  bool
		read     int // answers
	}{
		"done creation": {answer: succeeded(), asked: []string{"closed"}},
		"done change":   {expected: 5, answer: succeeded(), asked: []string{"ended"}},
		"conflict":      {expected: 5, answer: failed(1, 0), asked: []string{"ended"}, read: 1},
		"late creation": {answer: failed(0, 1), asked: []string{"closed", "refused"}, refused: true},
		"late change":   {expected: 5, answer: failed(1, 1), asked: []string{"ended", "refused"}, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			fence := &asked{}
			kv := fenced{answering{answer: tc.answer}}
			response, err := kv.Txn(WithFence(t.Context(), fence)).
				If(clientv3.Compare(clientv3.ModRevision("k"), "=", tc.expected)).
				Then(clientv3.OpPut("k", "v")).Else(clientv3.OpGet("k")).Commit()
			if diff := cmp.Diff(tc.asked, fence.questions); diff != "" {
				t.Errorf("asked for:\n%s", diff)
			}
			if refused := errors.Is(err, errRefused); refused != tc.refused {
				t.Fatalf("got error %v", err)
			}
			if err == nil && len(response.Responses) != tc.read {
				t.Errorf("got %d answers, want %d", len(response.Responses), tc.read)
			}
		})
	}
}

// TestLargeValues checks that what is as large as etcd takes can still be marked as deleted.
func TestLargeValues(t *testing.T) {
	for size, want := range map[int]struct{ refused, refusedWithReserve bool }{maxValue: {false, false}, maxValue + 1: {true, false}} {
		for reserve, refused := range map[bool]bool{false: want.refused, true: want.refusedWithReserve} {
			ctx := WithFence(t.Context(), &asked{})
			if reserve {
				ctx = WithReserve(ctx)
			}
			_, err := fenced{answering{answer: succeeded()}}.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision("k"), "=", 1)).
				Then(clientv3.OpPut("k", strings.Repeat("v", size))).Commit()
			if apierrors.IsRequestEntityTooLargeError(err) != refused || !refused && err != nil {
				t.Errorf("%d bytes, with reserve %v: got %v", size, reserve, err)
			}
		}
	}
}

var errRefused = errors.New("refused")

// asked notes what it was asked for.
type asked struct{ questions []string }

func (a *asked) note(what string) string {
	a.questions = append(a.questions, what)
	return what
}

func (a *asked) Closed() string { return a.note("closed") }
func (a *asked) Ended() string  { return a.note("ended") }
func (a *asked) Refused() error {
	a.note("refused")
	return errRefused
}

// answering is an etcd with one answer.
type answering struct {
	clientv3.KV
	answer *etcdserverpb.TxnResponse
}

func (a answering) Txn(context.Context) clientv3.Txn { return answered{a.answer} }

type answered struct{ answer *etcdserverpb.TxnResponse }

func (a answered) If(...clientv3.Cmp) clientv3.Txn  { return a }
func (a answered) Then(...clientv3.Op) clientv3.Txn { return a }
func (a answered) Else(...clientv3.Op) clientv3.Txn { return a }
func (a answered) Commit() (*clientv3.TxnResponse, error) {
	return (*clientv3.TxnResponse)(a.answer), nil
}

func succeeded() *etcdserverpb.TxnResponse { return &etcdserverpb.TxnResponse{Succeeded: true} }

// failed is the answer of a transaction that was not done: how often there is the object,
// and the key of the fence.
func failed(counts ...int64) *etcdserverpb.TxnResponse {
	answer := &etcdserverpb.TxnResponse{}
	for _, count := range counts {
		answer.Responses = append(answer.Responses, &etcdserverpb.ResponseOp{Response: &etcdserverpb.ResponseOp_ResponseRange{
			ResponseRange: &etcdserverpb.RangeResponse{Count: count},
		}})
	}
	return answer
}
