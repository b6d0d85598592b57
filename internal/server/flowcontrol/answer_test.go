package flowcontrol

import (
	"net/http"
	"net/http/httptest"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// TestRejectionOfWhatHasBegun checks that an answer that has begun is not replaced: its client has read some of it.
func TestRejectionOfWhatHasBegun(t *testing.T) {
	reject := func(status int) *apierrors.StatusError {
		if status == http.StatusForbidden {
			return apierrors.NewServiceUnavailable("not yet")
		}
		return nil
	}
	for name, tc := range map[string]struct {
		statuses []int
		want     int
		body     string
	}{
		"rejected":           {[]int{http.StatusForbidden}, http.StatusServiceUnavailable, ""},
		"begun and rejected": {[]int{http.StatusOK, http.StatusForbidden}, http.StatusOK, "content"},
	} {
		t.Run(name, func(t *testing.T) {
			answer := httptest.NewRecorder()
			w := WithRejection(answer, reject)
			for _, status := range tc.statuses {
				w.WriteHeader(status)
			}
			if _, err := w.Write([]byte("content")); err != nil {
				t.Error(err)
			}
			if answer.Code != tc.want || tc.body != "" && answer.Body.String() != tc.body {
				t.Errorf("got %d, %q", answer.Code, answer.Body)
			}
		})
	}
}
