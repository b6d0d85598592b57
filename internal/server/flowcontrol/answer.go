package flowcontrol

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/endpoints/responsewriter"
)

// rejection replaces the answer of the handler. Upstream's filters would answer otherwise: 403 for any error of an
// authorizer, 429 for a late body without a seat.
type rejection struct {
	atomic.Pointer[apierrors.StatusError]
}

// WithRejection returns a writer of the answer to a request, or of what rejection returns when the answer begins, by
// its status. Nil is none.
func WithRejection(w http.ResponseWriter, rejection func(status int) *apierrors.StatusError) http.ResponseWriter {
	return responsewriter.WrapForHTTP1Or2(&rejectingWriter{ResponseWriter: w, rejection: rejection})
}

// rejectingWriter writes the answer to a request, or its rejection.
type rejectingWriter struct {
	http.ResponseWriter
	rejection       func(status int) *apierrors.StatusError
	begun, rejected bool
}

// Unwrap implements responsewriter.UserProvidedDecorator.
func (a *rejectingWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (a *rejectingWriter) WriteHeader(code int) {
	var rejection *apierrors.StatusError
	if !a.begun {
		rejection = a.rejection(code)
	}
	if a.begun = true; rejection == nil {
		a.ResponseWriter.WriteHeader(code)
		return
	}
	a.rejected = true
	for name := range a.Header() {
		if strings.HasPrefix(name, "Content-") || name == "Retry-After" {
			a.Header().Del(name)
		}
	}
	if details := rejection.ErrStatus.Details; details != nil && details.RetryAfterSeconds > 0 {
		a.Header().Set("Retry-After", strconv.Itoa(int(details.RetryAfterSeconds)))
	}
	a.Header().Set("Content-Type", runtime.ContentTypeJSON)
	a.ResponseWriter.WriteHeader(int(rejection.ErrStatus.Code))
	status := rejection.ErrStatus
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	_ = json.NewEncoder(a.ResponseWriter).Encode(status) // to who may have gone
}

// Write implements http.ResponseWriter.
func (a *rejectingWriter) Write(p []byte) (int, error) {
	if !a.begun {
		a.WriteHeader(http.StatusOK)
	}
	if a.rejected {
		return len(p), nil
	}
	return a.ResponseWriter.Write(p)
}
