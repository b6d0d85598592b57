package audit

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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
	of := first.ObjectRef
	for most, texts := range map[int][]string{
		maxText: {first.RequestURI, first.UserAgent, first.ResponseStatus.Message},
		maxName: {of.Resource, of.Namespace, of.Name, of.APIGroup, of.APIVersion, of.Subresource},
	} {
		for i, text := range texts {
			if text != long[:most]+"..." {
				t.Errorf("text %d of %d bytes has %d", i, most, len(text))
			}
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

// TestLargestEvent checks that nobody makes an event that is dropped because it is large: what clients and webhooks
// choose is short together.
func TestLargestEvent(t *testing.T) {
	long := strings.Repeat("<", 64<<10)
	many := slices.Repeat([]string{long}, 1000)
	extra := map[string]authenticationv1.ExtraValue{"a": many}
	annotations := map[string]string{"authorization.k8s.io/decision": "allow", "tenantry.io/tenant": "acme"}
	for i := range 1000 {
		extra[fmt.Sprint(i, long)] = many
		annotations[fmt.Sprint("mutation.webhook.admission.k8s.io/", i)] = long
		annotations[fmt.Sprint("a.example.com/", i)] = long
	}
	user := authenticationv1.UserInfo{Username: long, UID: long, Groups: many, Extra: extra}
	details := &metav1.StatusDetails{Name: long, Group: long, Kind: long, UID: types.UID(long), Causes: slices.Repeat([]metav1.StatusCause{{Type: metav1.CauseType(long), Message: long, Field: long}}, 1000)}
	event := &auditapi.Event{RequestURI: long, UserAgent: long, SourceIPs: append(many, "192.0.2.1"), User: user, ImpersonatedUser: user.DeepCopy(), Annotations: annotations,
		ObjectRef:      &auditapi.ObjectReference{Resource: long, Namespace: long, Name: long, APIGroup: long, APIVersion: long, Subresource: long},
		ResponseStatus: &metav1.Status{Message: long, Details: details}}
	backend := &kept{}
	Shortened(backend).ProcessEvents(event)
	written, err := json.Marshal(event)
	if err != nil || len(written) > 100<<10 {
		t.Errorf("it has %d bytes, %v", len(written), err)
	}
	if len(details.Causes) != 1000 || details.Name != long || details.Causes[0].Message != long {
		t.Error("the details of the answer itself are shorter")
	}
	if ips := event.SourceIPs; ips[len(ips)-1] != "192.0.2.1" {
		t.Errorf("the last one of %d addresses is %.20s", len(ips), ips[len(ips)-1])
	}
	if event.Annotations["authorization.k8s.io/decision"] != "allow" || event.Annotations["tenantry.io/tenant"] != "acme" {
		t.Error("the server's own annotations are gone")
	}
}

// endless is a backend that never has sent all.
type endless struct {
	audit.Backend
	sent chan struct{}
}

func (e endless) Shutdown() { <-e.sent }

// TestShutdown checks that a server ends although a collector does not answer.
func TestShutdown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, stands := time.Now(), endless{sent: make(chan struct{})}
		Shortened(stands).Shutdown()
		if waited := time.Since(began); waited != maxShutdown {
			t.Errorf("it waited %v", waited)
		}
		close(stands.sent)
		Shortened(stands).Shutdown()
		if waited := time.Since(began); waited != maxShutdown {
			t.Errorf("it waited %v, although all was sent", waited-maxShutdown)
		}
	})
}

// TestNamesOfTenants checks that no webhook or policy takes the place of the server's annotations, whatever it is
// called.
func TestNamesOfTenants(t *testing.T) {
	for _, name := range []string{"a.k8s.io", "a.b.k8s.io", "authorization.k8s.io", "authentication.k8s.io", "k8s.io", "tenantry.io", "aa.kubernetes.io"} {
		t.Run(name, func(t *testing.T) {
			event := &auditapi.Event{Annotations: map[string]string{
				"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": "r", "tenantry.io/tenant": "acme", "tenantry.io/user-tenant": "globex",
			}}
			servers := maps.Clone(event.Annotations)
			for i := range 2 * maxTexts {
				event.Annotations[fmt.Sprintf("%s/a%d", name, i)] = "x"
			}
			Shortened(&kept{}).ProcessEvents(event)
			for key, value := range servers {
				if event.Annotations[key] != value {
					t.Errorf("%s is %q", key, event.Annotations[key])
				}
			}
		})
	}
}

// TestCut checks that a text has as many bytes as JSON has of it, whatever the script.
func TestCut(t *testing.T) {
	const most = 600
	for _, one := range []string{"a", "é", "ж", "工", "😀", "\u2028", "<", `"`, "\x01", "\xff"} {
		short := strings.TrimSuffix(cut(strings.Repeat(one, 1000), most), "...")
		written, err := json.Marshal(short)
		if n := len(written) - len(`""`); err != nil || n > most || one != "\xff" && n < most-6 {
			t.Errorf("of %q there are %d bytes, %v", one, n, err)
		}
		if uncut := strings.Repeat(one, 50); one != "\xff" && cut(uncut, most) != uncut {
			t.Errorf("%q is cut to %q", uncut, cut(uncut, most))
		}
	}
}
