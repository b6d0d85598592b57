package admission

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	validatingwebhook "k8s.io/apiserver/pkg/admission/plugin/webhook/validating"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"

	"github.com/tenantry/tenantry/internal/server/egress"
	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/test/until"
)

// hook is a webhook that refuses everything and notes what it was asked.
type hook struct {
	*httptest.Server
	mu    sync.Mutex
	calls []asked
}

// asked is what a webhook sees of a request.
type asked struct {
	Path, Namespace, Object, Authorization string
}

func newHook(t *testing.T) *hook {
	h := &hook{}
	h.Server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodPost {
			serveSchemas(w, req)
			return
		}
		review := admissionv1.AdmissionReview{}
		if err := json.NewDecoder(req.Body).Decode(&review); err != nil {
			t.Errorf("decoding the review: %v", err)
		}
		object := metav1.PartialObjectMetadata{}
		if err := json.Unmarshal(review.Request.Object.Raw, &object); err != nil {
			t.Errorf("decoding the object: %v", err)
		}
		h.mu.Lock()
		h.calls = append(h.calls, asked{
			Path: req.URL.Path, Namespace: review.Request.Namespace, Object: object.Namespace + "/" + object.Name,
			Authorization: req.Header.Get("Authorization"),
		})
		h.mu.Unlock()
		review.Response = &admissionv1.AdmissionResponse{
			UID: review.Request.UID, Result: &metav1.Status{
				Message: "not " + req.URL.Path, Code: http.StatusTooManyRequests, Details: &metav1.StatusDetails{RetryAfterSeconds: math.MaxInt32},
			},
		}
		if err := json.NewEncoder(w).Encode(review); err != nil {
			t.Errorf("answering the review: %v", err)
		}
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hook) seen() []asked {
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := h.calls
	h.calls = nil
	return seen
}

func (h *hook) client() admissionregistrationv1.WebhookClientConfig {
	url := h.URL + "/by-url"
	return admissionregistrationv1.WebhookClientConfig{
		URL:      &url,
		CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw}),
	}
}

func podRules() []admissionregistrationv1.RuleWithOperations {
	return []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
	}}
}

func (h *hook) configuration(n tenant.Name) *admissionregistrationv1.ValidatingWebhookConfiguration {
	none, fail, exact := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail, admissionregistrationv1.Exact
	return &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: flatMeta(n, "", "hooks"),
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "hook.example.com", ClientConfig: h.client(), Rules: podRules(), SideEffects: &none, FailurePolicy: &fail,
			MatchPolicy: &exact, AdmissionReviewVersions: []string{"v1"},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"hooked": "yes"}},
			ObjectSelector:    &metav1.LabelSelector{},
		}},
	}
}

// hooked returns namespace "hooked" of a space, which the configurations select.
func hooked(n tenant.Name) []apiruntime.Object {
	ns := namespaceIn(n, "hooked")
	ns.Labels = map[string]string{"hooked": "yes"}
	return []apiruntime.Object{ns, &corev1.ServiceAccount{ObjectMeta: flatMeta(n, "hooked", "default")}}
}

func everywhereHooked() []apiruntime.Object {
	var objects []apiruntime.Object
	for _, n := range []tenant.Name{tenant.System, "a", "b"} {
		objects = append(objects, hooked(n)...)
	}
	return objects
}

func TestWebhooks(t *testing.T) {
	for name, owner := range map[string]tenant.Name{"of a tenant": "a", "of the system space": tenant.System} {
		t.Run(name, func(t *testing.T) {
			h := newHook(t)
			s := newServer(t, serverConfig{objects: append(spaces(h.configuration(owner)), everywhereHooked()...)})
			for _, n := range []tenant.Name{tenant.System, "a", "b"} {
				err := s.create(n, pod("hooked"))
				var want []asked
				if n == owner {
					want = []asked{{Path: "/by-url", Namespace: "hooked", Object: "hooked/p"}}
				}
				if (err != nil) != (n == owner) {
					t.Errorf("in space %q: got error %v", n, err)
				}
				wait, _ := apierrors.SuggestsClientDelay(err)
				if n == owner && wait != map[bool]int{true: maxRetryAfter, false: math.MaxInt32}[n.IsSpace()] {
					t.Errorf("in space %q: clients wait for %d s", n, wait)
				}
				if diff := cmp.Diff(want, h.seen()); diff != "" {
					t.Errorf("calls from space %q: %s", n, diff)
				}
				if err := s.create(n, pod("team")); err != nil {
					t.Errorf("in a namespace that is not selected, in space %q: %v", n, err)
				}
			}
		})
	}
}

// TestPublisherIsNotAsked checks that webhooks of a space are not asked about what the publisher writes there.
func TestPublisherIsNotAsked(t *testing.T) {
	h := newHook(t)
	s := newServer(t, serverConfig{objects: append(spaces(h.configuration("a")), everywhereHooked()...)})
	publisher := request.WithUser(tenant.WithSpace(t.Context(), "a"), &user.DefaultInfo{Name: tenant.Publisher})
	if err := s.plugins[validatingwebhook.PluginName].Validate(publisher, podWrite(""), admission.NewObjectInterfacesFromScheme(legacyscheme.Scheme)); err != nil {
		t.Error(err)
	}
	if seen := h.seen(); len(seen) > 0 {
		t.Errorf("its webhook is asked %v", seen)
	}
}

// TestCallsHaveRoom has the calls of a space's webhooks hold as much as they may: those for another write wait, and
// others' do not.
func TestCallsHaveRoom(t *testing.T) {
	h := newHook(t)
	s := newServer(t, serverConfig{objects: append(spaces(h.configuration("a"), h.configuration("b")), everywhereHooked()...)})
	p := s.plugins[validatingwebhook.PluginName]
	rooms, _, leave := p.calls.of.Use("a", newRooms)
	room := rooms.small
	if err := room.Acquire(t.Context(), callRoom); err != nil {
		t.Fatal(err)
	}
	seen := func(ctx context.Context, n tenant.Name) int {
		if err := p.Validate(tenant.WithSpace(ctx, n), podWrite(""), admission.NewObjectInterfacesFromScheme(legacyscheme.Scheme)); err == nil {
			t.Errorf("in space %s it is let in", n)
		}
		return len(h.seen())
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if n := seen(ended, "a"); n > 0 {
		t.Errorf("without room its webhook is asked %d times", n)
	}
	if n := seen(t.Context(), "b"); n != 1 {
		t.Errorf("another's webhook is asked %d times", n)
	}
	room.Release(callRoom)
	if n := seen(t.Context(), "a"); n != 1 {
		t.Errorf("with room its webhook is asked %d times", n)
	}
	if !room.TryAcquire(callRoom) {
		t.Error("a call keeps its room")
	}
	if leave(); p.calls.of.Len() > 0 {
		t.Errorf("%d spaces have something in memory", p.calls.of.Len())
	}
}

// TestRoomOfCalls checks that large calls for one write are made one after the other, and that those which come to
// nothing keep no room.
func TestRoomOfCalls(t *testing.T) {
	var all calls
	large := podWrite(strings.Repeat("<", callRoom/callCopies/escaped*3/4))
	if err := all.bounded(t.Context(), "a", large, 0, func(ctx context.Context, a admission.Attributes) error {
		w := a.(*called)
		if size := w.size(); size < callRoom/2 || size >= callRoom {
			t.Errorf("a call takes %d bytes of %d", size, callRoom)
		}
		if !w.take() || w.rooms.large.TryAcquire(callRoom/2) {
			t.Error("a call has no room of its own")
		}
		if !w.rooms.small.TryAcquire(callRoom) {
			t.Error("small calls wait behind large ones")
		}
		w.give()
		w.give() // once too often
		if !w.take() {
			t.Error("the next call has no room")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if all.of.Len() > 0 {
		t.Error("a write that has ended keeps its space in memory")
	}
	if err := all.bounded(t.Context(), "a", podWrite(strings.Repeat("<", callRoom)), 0, func(_ context.Context, a admission.Attributes) error {
		if !a.(*called).take() {
			t.Error("a call that takes more than all the room is never made")
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// podWrite is the creation of a pod with an annotation.
func podWrite(text string) admission.Attributes {
	p := pod("hooked", func(p *core.Pod) { p.Annotations = map[string]string{"text": text} })
	return call{operation: admission.Create, namespace: "hooked", name: p.Name, user: &user.DefaultInfo{Name: "u"}}.attributes(
		core.Kind("Pod").WithVersion("v1"), schema.GroupVersionResource{Version: "v1", Resource: "pods"}, p, nil)
}

// TestWebhookService checks that a webhook's service is that of its own space,
// and that the service "kubernetes" in it is not the server with its own rights.
func TestWebhookService(t *testing.T) {
	h := newHook(t)
	configuration := h.configuration("a")
	path, port := "/by-service", int32(443)
	configuration.Webhooks[0].ClientConfig.URL = nil
	configuration.Webhooks[0].ClientConfig.Service = &admissionregistrationv1.ServiceReference{
		Namespace: "default", Name: "kubernetes", Path: &path, Port: &port,
	}
	system := &corev1.Service{ObjectMeta: flatMeta(tenant.System, "default", "kubernetes")}
	s := newServer(t, serverConfig{
		objects:  append(spaces(configuration, system), everywhereHooked()...),
		loopback: &rest.Config{Host: h.URL, BearerToken: "all-rights", TLSClientConfig: rest.TLSClientConfig{Insecure: true}},
	})
	err := s.create("a", pod("hooked"))
	if err == nil || !strings.Contains(err.Error(), `service "kubernetes" not found`) {
		t.Errorf("got error %v, want that the space has no such service", err)
	}
	for _, seen := range h.seen() {
		if seen.Path == path {
			t.Errorf("the server was called: %+v", seen)
		}
	}
}

// TestSystemConfiguration checks that the system's configuration of a plugin, with the
// credentials for the webhooks of the platform, is neither sent to those of tenants nor
// read for them.
func TestSystemConfiguration(t *testing.T) {
	h := newHook(t)
	file, kubeconfig := withWebhookToken(t, "of-the-platform")
	s := newServer(t, serverConfig{
		objects: append(spaces(h.configuration("a"), h.configuration(tenant.System)), everywhereHooked()...),
		file:    file,
	})
	if err := os.Remove(kubeconfig); err != nil { // which the system space has read
		t.Fatal(err)
	}
	for n, want := range map[tenant.Name]string{tenant.System: "Bearer of-the-platform", "a": ""} {
		if err := s.create(n, pod("hooked")); err == nil {
			t.Errorf("in space %q: the webhook has not refused", n)
		}
		var got []string
		for _, seen := range h.seen() {
			got = append(got, seen.Authorization)
		}
		if diff := cmp.Diff([]string{want}, got); diff != "" {
			t.Errorf("what the webhook of space %q was sent: %s", n, diff)
		}
	}
}

// withWebhookToken returns a file for --admission-control-config-file, by which webhooks
// are sent a token, and the kubeconfig that it names.
func withWebhookToken(t *testing.T, token string) (file, kubeconfig string) {
	t.Helper()
	dir := t.TempDir()
	credentials := api.NewConfig()
	credentials.AuthInfos["*"] = &api.AuthInfo{Token: token}
	kubeconfig = filepath.Join(dir, "kubeconfig")
	if err := clientcmd.WriteToFile(*credentials, kubeconfig); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, "admission.yaml")
	configuration := fmt.Sprintf(`{"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": [{
		"name": %q, "configuration": {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "WebhookAdmissionConfiguration",
		"kubeConfigFile": %q}}]}`, validatingwebhook.PluginName, kubeconfig)
	if err := os.WriteFile(file, []byte(configuration), 0o600); err != nil {
		t.Fatal(err)
	}
	return file, kubeconfig
}

// TestDeniedNetworks checks that webhooks of tenants, and these alone, are kept off what
// is denied them.
func TestDeniedNetworks(t *testing.T) {
	h := newHook(t)
	s := newServer(t, serverConfig{
		objects: append(spaces(h.configuration("a"), h.configuration(tenant.System)), everywhereHooked()...),
		egress:  &egress.Options{},
	})
	for n, want := range map[tenant.Name]int{tenant.System: 1, "a": 0} {
		if err := s.create(n, pod("hooked")); err == nil {
			t.Errorf("in space %q: the pod was created", n)
		}
		if seen := h.seen(); len(seen) != want {
			t.Errorf("the webhook of space %q was called %d times, want %d", n, len(seen), want)
		}
	}
}

// TestTerminating checks that a dead webhook does not keep its tenant alive.
func TestTerminating(t *testing.T) {
	h := newHook(t)
	s := newServer(t, serverConfig{
		objects:     append(spaces(h.configuration("a")), everywhereHooked()...),
		terminating: func(n tenant.Name) bool { return n == "a" },
	})
	if err := s.create("a", pod("hooked")); err != nil {
		t.Error(err)
	}
	if seen := h.seen(); seen != nil {
		t.Errorf("the webhook of a tenant that is being deleted was called: %v", seen)
	}
}

func policy(n tenant.Name, message string) []apiruntime.Object {
	fail, equivalent := admissionregistrationv1.Fail, admissionregistrationv1.Equivalent
	rules := []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: podRules()[0]}}
	return []apiruntime.Object{
		&admissionregistrationv1.ValidatingAdmissionPolicy{
			ObjectMeta: flatMeta(n, "", "no-pods"),
			Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
				FailurePolicy: &fail,
				MatchConstraints: &admissionregistrationv1.MatchResources{
					ResourceRules: rules, MatchPolicy: &equivalent,
					NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{},
				},
				Validations: []admissionregistrationv1.Validation{{
					Expression:        `object.metadata.namespace != "team" || namespaceObject.metadata.name != "team"`,
					MessageExpression: `"` + message + ` " + namespaceObject.metadata.name`,
				}},
			},
		},
		&admissionregistrationv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: flatMeta(n, "", "no-pods"),
			Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: "no-pods", ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
			},
		},
	}
}

func TestValidatingPolicies(t *testing.T) {
	s := newServer(t, serverConfig{objects: spaces(append(policy("a", "a refuses"), policy(tenant.System, "system refuses")...)...)})
	for n, want := range map[tenant.Name]string{
		"a":           "denied request: a refuses team",
		"b":           "",
		tenant.System: "denied request: system refuses team",
	} {
		err := s.create(n, pod("team"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("in space %q: got error %v, want %q", n, err, want)
		}
	}
}

func mutatingPolicy(n tenant.Name, hostname string) []apiruntime.Object {
	return patching(n, "/spec/hostname", strconv.Quote(hostname))
}

// patching returns a policy that adds a value to pods, which is an expression.
func patching(n tenant.Name, path, value string) []apiruntime.Object {
	fail, equivalent := admissionregistrationv1.Fail, admissionregistrationv1.Equivalent
	return []apiruntime.Object{
		&admissionregistrationv1.MutatingAdmissionPolicy{
			ObjectMeta: flatMeta(n, "", "mark"),
			Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
				FailurePolicy: &fail,
				MatchConstraints: &admissionregistrationv1.MatchResources{
					ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: podRules()[0]}}, MatchPolicy: &equivalent,
					NamespaceSelector: &metav1.LabelSelector{}, ObjectSelector: &metav1.LabelSelector{},
				},
				ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
				Mutations: []admissionregistrationv1.Mutation{{
					PatchType: admissionregistrationv1.PatchTypeJSONPatch,
					JSONPatch: &admissionregistrationv1.JSONPatch{
						Expression: `[JSONPatch{op: "add", path: "` + path + `", value: ` + value + `}]`,
					},
				}},
			},
		},
		&admissionregistrationv1.MutatingAdmissionPolicyBinding{
			ObjectMeta: flatMeta(n, "", "mark"),
			Spec:       admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: "mark"},
		},
	}
}

// createWithPolicies creates a pod when the policies know what a pod is: the types of a space are
// read once it has its first policy.
func createWithPolicies(t *testing.T, s *server, n tenant.Name, p *core.Pod) (err error) {
	t.Helper()
	until.True(t, "the policies know what a pod is", func() bool {
		err = s.create(n, p)
		return err == nil || !strings.Contains(err.Error(), "There can be a delay")
	})
	return err
}

func TestMutatingPolicies(t *testing.T) {
	s := newServer(t, serverConfig{objects: spaces(append(mutatingPolicy("a", "of-a"), mutatingPolicy("b", "of-b")...)...)})
	for n, want := range map[tenant.Name]string{"a": "of-a", "b": "of-b", tenant.System: ""} {
		p := pod("team")
		err := createWithPolicies(t, s, n, p)
		if err != nil {
			t.Errorf("in space %q: %v", n, err)
		}
		if p.Spec.Hostname != want {
			t.Errorf("in space %q: got host name %q, want %q", n, p.Spec.Hostname, want)
		}
	}
}

// TestMutationsAreTheTenants checks that a policy of a space makes of a request of the platform nothing that the tenant
// may not write.
func TestMutationsAreTheTenants(t *testing.T) {
	s := newServer(t, serverConfig{objects: spaces(append(patching("a", "/spec/nodeSelector", `{"disk": "fast"}`), mutatingPolicy("b", "of-b")...)...)})
	platform := &user.DefaultInfo{Name: "admin", Extra: map[string][]string{tenant.UserExtraKey: {string(tenant.System)}}}
	for n, want := range map[tenant.Name]string{"a": "by a mutating webhook or policy of the space: ", "b": ""} {
		var err error
		until.True(t, "the policies know what a pod is", func() bool {
			err = s.do(call{space: n, operation: admission.Create, object: pod("team"), user: platform})
			return err == nil || !strings.Contains(err.Error(), "There can be a delay")
		})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("in space %q: got %v, want %q", n, err, want)
		}
	}
	chosen := pod("team")
	chosen.Spec.NodeSelector = map[string]string{"disk": "fast"}
	if err := s.do(call{space: "b", operation: admission.Create, object: chosen, user: platform}); err != nil {
		t.Errorf("the platform's own choice is refused: %v", err)
	}
}

// TestWhatPoliciesMakeIsBounded checks that a policy cannot make a long list of a short
// object, or what a controller multiplies, not even when it is asked again, behind the plugins
// that are asked first.
func TestWhatPoliciesMakeIsBounded(t *testing.T) {
	list := `[["x"]]` + strings.Repeat(".map(l, l + l)", 14) + "[0]"
	long := `JSONPatch{op: "add", path: "/spec/containers/0/args", value: ` + list + `}`
	name := `JSONPatch{op: "add", path: "/spec/hostname", value: "named"}`
	containers := `JSONPatch{op: "add", path: "/spec/containers", value: [[object.spec.containers[0]]]` + strings.Repeat(".map(l, l + l)", 9) + "[0]}"
	for title, tc := range map[string]struct{ expression, message string }{
		"at once":          {"[" + long + "]", "more than 10000 elements in one list"},
		"when asked again": {"has(object.spec.hostname) ? [" + long + "] : [" + name + "]", "more than 10000 elements in one list"},
		"many containers":  {"has(object.spec.hostname) ? [" + containers + "] : [" + name + "]", "it has 512 containers"},
	} {
		t.Run(title, func(t *testing.T) {
			objects, others := mutatingPolicy("a", ""), mutatingPolicy("a", "")
			policy, other := &objects[0].(*admissionregistrationv1.MutatingAdmissionPolicy).Spec, others[0].(*admissionregistrationv1.MutatingAdmissionPolicy)
			policy.ReinvocationPolicy = admissionregistrationv1.IfNeededReinvocationPolicy
			policy.Mutations[0].JSONPatch.Expression = tc.expression
			other.ObjectMeta = flatMeta("a", "", "other")
			other.Spec.Mutations[0].JSONPatch.Expression = `[JSONPatch{op: "add", path: "/spec/subdomain", value: "other"}]`
			binding := others[1].(*admissionregistrationv1.MutatingAdmissionPolicyBinding)
			binding.ObjectMeta, binding.Spec.PolicyName = flatMeta("a", "", "other"), "other"
			s := newServer(t, serverConfig{objects: spaces(append(objects, others...)...)})
			err := createWithPolicies(t, s, "a", pod("team"))
			if err == nil || !strings.Contains(err.Error(), tc.message) {
				t.Errorf("got error %.500v", err)
			}
		})
	}
}

// TestWhatMutationsMakeTogetherIsBounded checks that the next mutation of a policy is not asked
// about an object that is too large already.
func TestWhatMutationsMakeTogetherIsBounded(t *testing.T) {
	for name, expressions := range map[string][]string{
		"a list that grows":   {`[["x"]]` + strings.Repeat(".map(l, l + l)", 14) + "[0]", `size(object.spec.containers[0].args) > 0 ? ["asked again"] : ["empty"]`},
		"a list that shrinks": {`[["x"]]` + strings.Repeat(".map(l, l + l)", 14) + "[0]", `["small"]`},
	} {
		t.Run(name, func(t *testing.T) {
			objects := mutatingPolicy("a", "")
			policy := &objects[0].(*admissionregistrationv1.MutatingAdmissionPolicy).Spec
			mutation := policy.Mutations[0]
			policy.Mutations = nil
			for _, value := range expressions {
				next := mutation.DeepCopy()
				next.JSONPatch.Expression = `[JSONPatch{op: "add", path: "/spec/containers/0/args", value: ` + value + `}]`
				policy.Mutations = append(policy.Mutations, *next)
			}
			s := newServer(t, serverConfig{objects: spaces(objects...)})
			err := createWithPolicies(t, s, "a", pod("team"))
			if err == nil || !strings.Contains(err.Error(), "more than 10000 elements in one list") {
				t.Errorf("got error %.500v", err)
			}
		})
	}
}

// TestQuantitiesOfPolicies checks that nothing is compared with a quantity that takes hours,
// not even to set defaults.
func TestQuantitiesOfPolicies(t *testing.T) {
	objects := mutatingPolicy("a", "")
	policy := objects[0].(*admissionregistrationv1.MutatingAdmissionPolicy)
	policy.Spec.Mutations[0].JSONPatch.Expression =
		`[JSONPatch{op: "add", path: "/spec/resources", value: {"limits": {"cpu": "1e1000000000"}, "requests": {"cpu": "1"}}}]`
	s := newServer(t, serverConfig{objects: spaces(objects...)})
	p := pod("team")
	p.Spec.Containers[0].Resources.Requests = core.ResourceList{"cpu": resource.MustParse("2")}
	err := createWithPolicies(t, s, "a", p)
	if err == nil || !strings.Contains(err.Error(), "a quantity") || !strings.Contains(err.Error(), "has an exponent of more than 3 digits") {
		t.Errorf("got error %.500v", err)
	}
}

// TestTeardown checks that an instance goes with the last object of its space
// and comes back with the next.
func TestTeardown(t *testing.T) {
	h := newHook(t)
	s := newServer(t, serverConfig{objects: append(spaces(policy("a", "a refuses")...), everywhereHooked()...)})
	configurations := s.client.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	policies := s.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	until.True(t, "the policy refuses", func() bool { return s.create("a", pod("team")) != nil })
	for range 2 {
		if err := s.create("a", pod("hooked")); err != nil {
			t.Fatalf("without a webhook: %v", err)
		}
		if _, err := configurations.Create(t.Context(), h.configuration("a"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		until.True(t, "the webhook refuses", func() bool { return s.create("a", pod("hooked")) != nil })
		if err := configurations.Delete(t.Context(), "a|hooks", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		until.True(t, "the webhook is gone", func() bool { return s.create("a", pod("hooked")) == nil })
	}
	running := ofPolicies()
	if err := policies.Delete(t.Context(), "a|no-pods", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until.True(t, "the policy is gone", func() bool { return s.create("a", pod("team")) == nil })
	until.True(t, "goroutines of the policy end", func() bool { return ofPolicies() < running })
	for name, instances := range s.instances() {
		if instances != 0 {
			t.Errorf("%s has %d instances left", name, instances)
		}
	}
}

// ofPolicies counts the goroutines of policies: those of webhooks may be ending.
func ofPolicies() int {
	stacks := make([]byte, 64<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	return strings.Count(string(stacks), "k8s.io/apiserver/pkg/admission/plugin/policy/generic.(*policySource")
}

// instances counts the instances of on-demand plugins in tenants' spaces.
func (s *server) instances() map[string]int {
	counts := map[string]int{}
	for _, p := range s.plugins {
		p.mu.Lock()
		counts[p.name] = len(p.instances)
		p.mu.Unlock()
	}
	return counts
}

// TestIdleSpaces checks that spaces without webhooks and policies start nothing.
func TestIdleSpaces(t *testing.T) {
	objects := spaces()
	names := make([]tenant.Name, 100)
	for i := range names {
		names[i] = tenant.Name("t" + strings.Repeat("x", i))
		objects = append(objects, space(names[i], "team")...)
	}
	s := newServer(t, serverConfig{objects: objects})
	if err := s.create("a", pod("team")); err != nil {
		t.Fatal(err)
	}
	running := runtime.NumGoroutine()
	for _, n := range names {
		if err := s.create(n, pod("team")); err != nil {
			t.Fatal(err)
		}
	}
	if now := runtime.NumGoroutine(); now >= running+len(names)/2 { // others may begin late
		t.Errorf("goroutines: %d before, %d after %d spaces were used", running, now, len(names))
	}
	for name, instances := range s.instances() {
		if instances != 0 {
			t.Errorf("%s has %d instances", name, instances)
		}
	}
	for _, name := range []string{validating.PluginName, validatingwebhook.PluginName} {
		if _, ok := s.plugins[name]; !ok {
			t.Errorf("%s is not part of the chain", name)
		}
	}
}

// TestPlatformsCallsWaitLittle checks that what the platform writes waits for room no longer than a call of its may
// take, and that calls which come to nothing keep no room when their write has ended.
func TestPlatformsCallsWaitLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all calls
		_, _, leave := all.of.Use("a", newRooms) // there are other writes
		defer leave()
		large := podWrite(strings.Repeat("<", callRoom))
		first, ended := make(chan struct{}), make(chan struct{})
		go func() {
			_ = all.bounded(t.Context(), "a", large, 0, func(_ context.Context, a admission.Attributes) error {
				if !a.(*called).take() {
					t.Error("the first call has no room")
				}
				close(first)
				<-ended
				return nil
			})
		}()
		<-first
		platform := request.WithUser(t.Context(), &user.DefaultInfo{Name: user.APIServerUser})
		began := time.Now()
		take := func() (took bool) {
			_ = all.bounded(platform, "a", large, 0, func(_ context.Context, a admission.Attributes) error {
				took = a.(*called).take()
				return nil
			})
			return took
		}
		if limit := egress.CallTimeout(platform); limit == 0 || take() || time.Since(began) != limit {
			t.Errorf("it waits for %v of %v", time.Since(began), limit)
		}
		close(ended)
		synctest.Wait()
		if !take() {
			t.Error("a call that came to nothing keeps its room")
		}
	})
}

// TestRoomOfConversions checks that few large objects are converted at once for the webhooks of a space.
func TestRoomOfConversions(t *testing.T) {
	versions := func(n int, strategy apiextensionsv1.ConversionStrategyType) *shared {
		definition := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Versions: make([]apiextensionsv1.CustomResourceDefinitionVersion, n), Conversion: &apiextensionsv1.CustomResourceConversion{Strategy: strategy}}}
		return &shared{Config: Config{Definition: func(tenant.Name, schema.GroupResource) (*apiextensionsv1.CustomResourceDefinition, error) {
			return definition, nil
		}}}
	}
	custom := &unstructured.Unstructured{Object: map[string]any{"data": strings.Repeat("x", 1<<20)}}
	write := admission.NewAttributesRecord(custom, custom, schema.GroupVersionKind{Kind: "Widget"}, "ns", "w",
		schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}, "", admission.Update, nil, false, nil)
	one := versions(2, apiextensionsv1.NoneConverter).conversionBytes("a", write)
	if one < 2<<20 || versions(1, apiextensionsv1.NoneConverter).conversionBytes("a", write) != 0 ||
		versions(4, apiextensionsv1.NoneConverter).conversionBytes("a", write) != 3*one ||
		versions(2, apiextensionsv1.WebhookConverter).conversionBytes("a", write) != conversionGrowth*one {
		t.Errorf("one version more takes %d bytes", one)
	}
	if bytes := versions(2, apiextensionsv1.NoneConverter).conversionBytes("a", podWrite("x")); bytes != 0 {
		t.Errorf("a pod is converted in %d bytes", bytes)
	}
	synctest.Test(t, func(t *testing.T) {
		var all calls
		within := func(n tenant.Name, bytes int64) error {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			return all.bounded(ctx, n, write, bytes, func(context.Context, admission.Attributes) error { return nil })
		}
		if err := all.bounded(t.Context(), "a", write, 2*conversionRoom, func(context.Context, admission.Attributes) error {
			if err := within("a", smallCall+1); !apierrors.IsTooManyRequests(err) {
				t.Errorf("another large one beside it: %v", err)
			}
			if err := within("a", smallCall); err != nil {
				t.Errorf("a small one beside it: %v", err)
			}
			if err := within("b", conversionRoom); err != nil {
				t.Errorf("another tenant's beside it: %v", err)
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		if err := within("a", conversionRoom); err != nil {
			t.Errorf("after it: %v", err)
		}
	})
}
