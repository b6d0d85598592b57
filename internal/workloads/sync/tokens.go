package sync

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	podv1 "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/tenantry/tenantry/internal/process/keyed"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

const (
	// renewAnnotation says when the tokens in a host's Secret are to be renewed.
	renewAnnotation = names.Prefix + "renew"
	// maxTokenAge is how old a token becomes at most before it is renewed, as with a kubelet.
	maxTokenAge = 24 * time.Hour
	// reasonToken is the reason of the event of a pod whose tokens cannot be renewed.
	reasonToken = "TokenNotRenewed"
)

// tokenSecret is what is known of the host's Secret with the tokens of a pod.
type tokenSecret struct {
	uid types.UID
	// owner is the UID of the host's pod with which it goes.
	owner types.UID
	renew time.Time
}

// minted are new tokens of a pod, by their keys.
type minted struct {
	data  map[string][]byte
	renew time.Time
}

// mint makes the tokens that a pod has. They are bound to it: they end with it, and the space makes none for another
// service account than the pod's, or for another pod of its name.
func (s *syncer) mint(ctx context.Context, pod *corev1.Pod) (minted, error) {
	m := minted{data: map[string][]byte{}}
	for _, wanted := range translate.TokensOf(&pod.Spec) {
		request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
			ExpirationSeconds: &wanted.ExpirationSeconds,
			BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID},
		}}
		if wanted.Audience != "" {
			request.Spec.Audiences = []string{wanted.Audience}
		}
		made, err := s.spaces.CoreV1().ServiceAccounts(pod.Namespace).CreateToken(ctx, pod.Spec.ServiceAccountName, request, metav1.CreateOptions{})
		if err != nil {
			return minted{}, fmt.Errorf("making a token of the service account %q: %w", pod.Spec.ServiceAccountName, err)
		}
		// Both times are the server's.
		renew := s.clock.Now().Add(renewAfter(made.Status.ExpirationTimestamp.Sub(made.CreationTimestamp.Time)))
		if m.renew.IsZero() || renew.Before(m.renew) {
			m.renew = renew
		}
		m.data[wanted.Key] = []byte(made.Status.Token)
	}
	return m, nil
}

// isForSpace reports whether a space says why it makes no token, and not merely that it cannot now.
func isForSpace(err error) bool {
	return apierrors.IsNotFound(err) || isRefused(err) || apierrors.IsBadRequest(err) || apierrors.IsInternalError(err)
}

// isGone reports whether a space makes no token because the pod that it is for is gone, which is no news.
func isGone(err error) bool {
	return apierrors.IsNotFound(err) && detailsOf(err).Kind == "pods"
}

// renewAfter returns after what part of its life a token is renewed: at most four fifths, and a little less, so that
// what is made at one time is not renewed at one time.
func renewAfter(life time.Duration) time.Duration {
	after := min(life/5*4, maxTokenAge)
	return after - rand.N(max(1, after/10)) // nobody gains by guessing it
}

// ensureTokens makes and renews the tokens of a pod that is on the host, and has it looked at again when that is due.
func (s *syncer) ensureTokens(ctx context.Context, pod, host *corev1.Pod) error {
	if podv1.IsPodTerminal(pod) || podv1.IsPodTerminal(host) || len(translate.TokensOf(&pod.Spec)) == 0 {
		return nil
	}
	of, _, _ := sourceOf(host)
	has, err := s.tokensOf(ctx, of, pod.UID)
	if err != nil {
		return err
	}
	if left := has.renew.Sub(s.clock.Now()); has.owner == host.UID && left > 0 {
		s.queue.AddAfter(itemOf(podItem, pod), left)
		return nil
	}
	made, err := s.mint(ctx, pod)
	if isGone(err) {
		return nil
	}
	if isForSpace(err) {
		return errors.Join(err, s.recordEvent(ctx, pod, reasonToken, err.Error()))
	}
	if err != nil {
		return err
	}
	return s.putTokens(ctx, of, pod, host.UID, made)
}

// putTokens writes the tokens of a pod into its Secret on the host, which goes with the host's pod. It is written after
// the pod, so that there is none without an owner: a kubelet waits for it.
func (s *syncer) putTokens(ctx context.Context, home names.Namespace, pod *corev1.Pod, host types.UID, made minted) error {
	if len(made.data) == 0 {
		return nil
	}
	has, err := s.tokensOf(ctx, home, pod.UID)
	if err != nil {
		return err
	}
	meta := home.Meta(names.Tokens(pod.UID), pod)
	meta.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: host}}
	meta.Annotations[renewAnnotation] = made.renew.UTC().Format(time.RFC3339)
	in := s.copiesOf(home)
	written, err := s.putCopy(ctx, secretItem, meta, content{binary: made.data, secretType: corev1.SecretTypeOpaque}, copied{uid: has.uid})
	if err != nil {
		if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) {
			in.readAgain() // an answer was lost, or somebody else has changed it
		}
		return fmt.Errorf("writing the Secret %q with the tokens of a pod to the host's namespace %q: %w; if there is one that has not the marks of this pod, whoever administers the host is to remove it",
			meta.Name, home.Host(), err)
	}
	in.tokens.Set(pod.UID, tokenSecret{uid: written.GetUID(), owner: host, renew: made.renew})
	s.queue.AddAfter(itemOf(podItem, pod), made.renew.Sub(s.clock.Now()))
	return nil
}

// tokensOf returns what is known of the Secret of a pod, nothing if there is none.
func (s *syncer) tokensOf(ctx context.Context, home names.Namespace, pod types.UID) (tokenSecret, error) {
	in := s.copiesOf(home)
	in.mu.Lock()
	defer s.wakeAskers(in)
	defer in.mu.Unlock()
	if err := s.ensureRead(ctx, home, in); err != nil {
		return tokenSecret{}, err
	}
	return in.tokens.Get(pod), nil
}

// readAgain has the namespace read before its next use.
func (c *copiesIn) readAgain() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = false
}

// forgetTokens forgets the Secret that goes with a host's pod.
func (c *copies) forgetTokens(host *corev1.Pod) {
	c.mu.Lock()
	in := c.byNamespace[host.Namespace]
	c.mu.Unlock()
	if in != nil {
		in.tokens.forget(uidOf(host), host.UID)
	}
}

// tokenSecrets are the Secrets with the tokens of pods in a namespace of the host, by the UIDs that these have in the
// space.
type tokenSecrets struct {
	keyed.Values[types.UID, tokenSecret]
}

// forget forgets the Secret of a pod, if it is that which goes with a host's pod.
func (t *tokenSecrets) forget(pod, owner types.UID) {
	t.DeleteIf(pod, func(found tokenSecret) bool { return found.owner == owner })
}

// note notes a Secret of the host, and reports whether it is one with the tokens of a pod.
func (t *tokenSecrets) note(o *metav1.PartialObjectMetadata) bool {
	pod := types.UID(o.Annotations[names.UIDAnnotation])
	if o.Name != names.Tokens(pod) {
		return false
	}
	found := tokenSecret{uid: o.UID}
	if renew, err := time.Parse(time.RFC3339, o.Annotations[renewAnnotation]); err == nil && len(o.OwnerReferences) == 1 {
		found.owner, found.renew = o.OwnerReferences[0].UID, renew
	}
	t.Set(pod, found)
	return true
}
