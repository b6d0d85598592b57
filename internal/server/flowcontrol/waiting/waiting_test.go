package waiting

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/tenantry/tenantry/internal/roundtrip"
)

func TestWebhooks(t *testing.T) {
	var told []bool
	tell := func(waits bool) { told = append(told, waits) }
	ctx := With(t.Context(), &Webhooks{})
	request := httptest.NewRequest(http.MethodPost, "/", nil).WithContext(ctx)
	call := func(during func()) {
		_, _ = Transport(roundtrip.Func(func(*http.Request) (*http.Response, error) {
			during()
			return nil, nil
		})).RoundTrip(request)
	}
	call(func() {}) // before anybody wants to know
	call(func() { Notify(ctx, tell) })
	call(func() { call(func() {}) }) // two at a time are one wait
	Notify(ctx, nil)
	call(func() {})
	if want := []bool{true, false, true, false}; !slices.Equal(told, want) {
		t.Errorf("told %v, want %v", told, want)
	}
	Notify(t.Context(), tell) // nobody counts
}
