package audit

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditapi "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/server/options"
)

type kept struct {
	audit.Backend
	events []*auditapi.Event
}

func (k *kept) ProcessEvents(events ...*auditapi.Event) bool {
	k.events = append(k.events, events...)
	return true
}

func TestShortened(t *testing.T) {
	long := strings.Repeat("é", 32<<10)
	backend := &kept{}
	Shortened(backend).ProcessEvents(
		&auditapi.Event{RequestURI: long, UserAgent: long, ObjectRef: &auditapi.ObjectReference{Resource: long, Namespace: long, Name: long, APIGroup: long, APIVersion: long, Subresource: long},
			ResponseStatus: &metav1.Status{Message: long}},
		&auditapi.Event{RequestURI: "/api", UserAgent: "x"},
	)
	first := backend.events[0]
	for name, text := range map[string]string{"URI": first.RequestURI, "user agent": first.UserAgent, "resource": first.ObjectRef.Resource, "namespace": first.ObjectRef.Namespace,
		"name": first.ObjectRef.Name, "group": first.ObjectRef.APIGroup, "version": first.ObjectRef.APIVersion, "subresource": first.ObjectRef.Subresource, "message": first.ResponseStatus.Message} {
		if len(text) > maxText+3 || !strings.HasPrefix(long, strings.TrimSuffix(text, "...")) || !strings.HasSuffix(text, "...") {
			t.Errorf("%s has %d bytes", name, len(text))
		}
	}
	if second := backend.events[1]; second.RequestURI != "/api" || second.UserAgent != "x" {
		t.Errorf("got %+v", second)
	}
	if Shortened(nil) != nil {
		t.Error("there is a backend where there was none")
	}
}

func TestDefaults(t *testing.T) {
	o := options.NewAuditOptions()
	SetDefaults(o)
	if o.WebhookOptions.BatchOptions.BatchConfig.AsyncDelegate || !o.WebhookOptions.TruncateOptions.Enabled {
		t.Errorf("got %+v", o.WebhookOptions)
	}
}

// TestTokensAreNotLogged checks that no policy has tokens logged.
func TestTokensAreNotLogged(t *testing.T) {
	for name, tc := range map[string]struct {
		ref   auditapi.ObjectReference
		token bool
	}{
		"a review of a token": {auditapi.ObjectReference{APIGroup: "authentication.k8s.io", Resource: "tokenreviews"}, true},
		"a new token":         {auditapi.ObjectReference{Resource: "serviceaccounts", Subresource: "token"}, true},
		"an account":          {auditapi.ObjectReference{Resource: "serviceaccounts"}, false},
		"another review":      {auditapi.ObjectReference{APIGroup: "example.com", Resource: "tokenreviews"}, false},
	} {
		backend, object := &kept{}, &runtime.Unknown{Raw: []byte("{}")}
		Shortened(backend).ProcessEvents(&auditapi.Event{ObjectRef: &tc.ref, RequestObject: object, ResponseObject: object})
		if got := backend.events[0]; (got.RequestObject == nil) != tc.token || (got.ResponseObject == nil) != tc.token {
			t.Errorf("%s: got %v and %v", name, got.RequestObject, got.ResponseObject)
		}
	}
}
