package sync

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

// issuer is what a space does when it is asked for tokens, and the host when it is asked for objects: it numbers them.
type issuer struct {
	w      *world
	asked  []string
	made   int
	refuse error
}

// newIssuer has the space of a world make tokens, and its host UIDs.
func newIssuer(w *world) *issuer {
	i := &issuer{w: w}
	w.space.PrependReactor("create", "serviceaccounts", func(action clienttesting.Action) (bool, runtime.Object, error) {
		create := action.(clienttesting.CreateActionImpl)
		request := create.Object.(*authenticationv1.TokenRequest).DeepCopy()
		ref := request.Spec.BoundObjectRef
		i.asked = append(i.asked, fmt.Sprint(create.Namespace, "/", create.Name, " ", create.Subresource, " ", request.Spec.Audiences, " ", *request.Spec.ExpirationSeconds, " ", ref.Kind, " ", ref.Name, " ", ref.UID))
		if i.refuse != nil {
			return true, nil, i.refuse
		}
		i.made++
		// The server's clock is another one.
		request.CreationTimestamp = metav1.NewTime(time.Unix(5000, 0))
		request.Status = authenticationv1.TokenRequestStatus{Token: fmt.Sprint("t", i.made), ExpirationTimestamp: metav1.NewTime(time.Unix(5000+*request.Spec.ExpirationSeconds, 0))}
		return true, request, nil
	})
	for _, resource := range []string{"pods", "secrets"} {
		w.onHost.PrependReactor("create", resource, func(action clienttesting.Action) (bool, runtime.Object, error) {
			o := action.(clienttesting.CreateAction).GetObject().(metav1.Object)
			if o.GetUID() == "" {
				o.SetUID(types.UID("host-" + o.GetAnnotations()[names.UIDAnnotation]))
			}
			return false, nil, nil
		})
	}
	return i
}

// withTokens has a pod have a token for the API, and one for something else.
func withTokens(p *corev1.Pod) {
	p.Spec.ServiceAccountName = "robot"
	p.Spec.Volumes = []corev1.Volume{{Name: "kube-api-access-x", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token", ExpirationSeconds: new(int64(3607))}},
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "vault", ExpirationSeconds: new(int64(600)), Audience: "vault"}},
	}}}}}
}

// tokens returns the Secret with the tokens of the pod web-0.
func (w *world) tokens() *corev1.Secret {
	w.t.Helper()
	secret, err := w.onHost.CoreV1().Secrets(home.Host()).Get(w.t.Context(), names.Tokens("p"), metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return secret
}

// texts returns the content of a Secret.
func texts(secret *corev1.Secret) map[string]string {
	all := map[string]string{}
	for key, value := range secret.Data {
		all[key] = string(value)
	}
	return all
}

// TestTokens checks that a pod has tokens of its own service account that are bound to it, in a Secret that goes with
// the host's pod, and that they are renewed in time.
func TestTokens(t *testing.T) {
	w := newWorld(t, hostSpace(), spacePod(withTokens))
	from := newIssuer(w)
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	w.expect([]string{"create serviceaccounts/token", "create serviceaccounts/token"}, []string{"create pods", "create secrets"})
	want := []string{"acme|shop/robot token [] 3607 Pod web-0 p", "acme|shop/robot token [vault] 600 Pod web-0 p"}
	if diff := cmp.Diff(want, from.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	secret := w.tokens()
	if diff := cmp.Diff(map[string]string{"token-0": "t1", "token-1": "t2"}, texts(secret)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	owner := []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "web-0", UID: "host-p"}}
	if diff := cmp.Diff(owner, secret.OwnerReferences); diff != "" || secret.Labels[names.InstallationLabel] != "i" || secret.Type != corev1.SecretTypeOpaque {
		t.Errorf("it is %+v (-want +got):\n%s", secret, diff)
	}

	w.see(hostPod(spacePod(withTokens), nil))
	for _, step := range []struct {
		after time.Duration
		want  map[string]string
	}{
		{0, map[string]string{"token-0": "t1", "token-1": "t2"}},
		{430 * time.Second, map[string]string{"token-0": "t1", "token-1": "t2"}}, // 72 % of ten minutes
		{50 * time.Second, map[string]string{"token-0": "t3", "token-1": "t4"}},  // 80 %
	} {
		w.clock.Step(step.after)
		if err := w.look(); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, texts(w.tokens())); diff != "" {
			t.Errorf("after %s (-want +got):\n%s", step.after, diff)
		}
	}
}

// TestTokensAreLeftAlone checks that a restart makes no tokens, and that there are none for who has come to an end.
func TestTokensAreLeftAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		space, host func(*corev1.Pod)
		// before changes the Secret that there is.
		before  func(*metav1.PartialObjectMetadata)
		renewed bool
	}{
		"a restart":             {},
		"a restart after long":  {before: func(o *metav1.PartialObjectMetadata) { o.Annotations[renewAnnotation] = "1970-01-01T00:00:00Z" }, renewed: true},
		"a spoilt time":         {before: func(o *metav1.PartialObjectMetadata) { o.Annotations[renewAnnotation] = "soon" }, renewed: true},
		"an earlier host's pod": {before: func(o *metav1.PartialObjectMetadata) { o.OwnerReferences[0].UID = "earlier" }, renewed: true},
		"somebody else's mark":  {before: func(o *metav1.PartialObjectMetadata) { o.Annotations[names.TenantUIDAnnotation] = "other" }, renewed: true},
		"the pod is over":       {space: over, before: func(o *metav1.PartialObjectMetadata) { o.Name = "none" }},
		"the host's is over":    {host: over, before: func(o *metav1.PartialObjectMetadata) { o.Name = "none" }},
	} {
		t.Run(name, func(t *testing.T) {
			change := withTokens
			if tc.space != nil {
				change = both(withTokens, tc.space)
			}
			pod := spacePod(change)
			w := newWorld(t, hostSpace(), pod, hostPod(pod, tc.host))
			there := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Name: names.Tokens("p"), Namespace: home.Host(), UID: "secret", Labels: home.Labels(), Annotations: home.MarksOf("web-0", "p"),
				OwnerReferences: []metav1.OwnerReference{{UID: "host-p"}},
			}}
			there.Annotations[renewAnnotation] = "2026-01-01T00:00:00Z"
			if tc.before != nil {
				tc.before(there)
			}
			there.APIVersion, there.Kind = "v1", "Secret"
			scheme := metadatafake.NewTestScheme()
			if err := metav1.AddMetaToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			w.hostMetadata = metadatafake.NewSimpleMetadataClient(scheme, there)
			w.add(w.onHost, &corev1.Secret{ObjectMeta: *there.ObjectMeta.DeepCopy()})
			from := newIssuer(w)
			err := w.look()
			if (from.made > 0) != tc.renewed {
				t.Errorf("made %d, %v", from.made, err)
			}
		})
	}
}

// TestTokensOfAnother checks that a Secret that is not the pod's is left as it is.
func TestTokensOfAnother(t *testing.T) {
	w := newWorld(t, hostSpace(), spacePod(withTokens))
	newIssuer(w)
	w.add(w.onHost, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: names.Tokens("p"), Namespace: home.Host()}})
	for range 2 {
		if err := w.look(); !apierrors.IsAlreadyExists(err) || !strings.Contains(err.Error(), "whoever administers the host is to remove it") {
			t.Errorf("got %v", err)
		}
	}
	if len(w.tokens().Data) > 0 {
		t.Error("it has tokens")
	}
}

// TestNoToken checks that a pod whose service account is gone is not on the host, and says why, and that one that runs
// says so, too.
func TestNoToken(t *testing.T) {
	gone := apierrors.NewNotFound(corev1.Resource("serviceaccounts"), "robot")
	w := newWorld(t, hostSpace(), spacePod(withTokens))
	from := newIssuer(w)
	from.refuse = gone
	if err := w.look(); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
	w.expect([]string{"create serviceaccounts/token", "update pods/status", "create events"}, nil)

	pod := spacePod(both(withTokens, bound))
	w = newWorld(t, hostSpace(), pod, hostPod(pod, onNode))
	from = newIssuer(w)
	from.refuse = gone
	if err := w.look(); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
	if done := did(w.space); !slices.Contains(done, "create events") {
		t.Errorf("did %v", done)
	}
}

// TestNoTokenForWhoIsGone checks that it is no news if a pod is gone for which a token was to be made.
func TestNoTokenForWhoIsGone(t *testing.T) {
	pod := spacePod(both(withTokens, bound))
	w := newWorld(t, hostSpace(), pod, hostPod(pod, onNode))
	from := newIssuer(w)
	from.refuse = apierrors.NewNotFound(corev1.Resource("pods"), pod.Name)
	if err := w.look(); err != nil {
		t.Errorf("got %v", err)
	}
	if done := did(w.space); !slices.Contains(done, "create serviceaccounts/token") || slices.Contains(done, "create events") {
		t.Errorf("did %v", done)
	}
}

// TestForgottenTokens checks that nothing is known of pods that the host does not have.
func TestForgottenTokens(t *testing.T) {
	w := newWorld(t, hostSpace(), spacePod(withTokens))
	newIssuer(w)
	if err := w.look(); err != nil {
		t.Fatal(err)
	}
	in := w.copiesOf(home)
	host := hostPod(spacePod(withTokens), func(p *corev1.Pod) { p.UID = "another" })
	w.hostPodGone(host, true)
	if in.tokens.Get("p").owner != "host-p" {
		t.Error("what is there is forgotten")
	}
	host.UID = "host-p"
	w.hostPodGone(host, true)
	if left := in.tokens.Len(); left > 0 {
		t.Errorf("it knows %v", left)
	}
}

func TestRenewAfter(t *testing.T) {
	for life, most := range map[time.Duration]time.Duration{10 * time.Minute: 8 * time.Minute, time.Hour: 48 * time.Minute, 8760 * time.Hour: 24 * time.Hour, 0: 0} {
		seen := map[time.Duration]bool{}
		for range 100 {
			after := renewAfter(life)
			if after > most || after < most/10*9 {
				t.Errorf("a token for %s is renewed after %s", life, after)
			}
			seen[after] = true
		}
		if life > 0 && len(seen) < 10 {
			t.Errorf("tokens for %s are renewed at one time", life)
		}
	}
}
