package translate

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/tenantry/tenantry/internal/workloads/names"
)

const (
	// maxTokens is how many different tokens a pod has at most: each is signed again and again for as long as the pod
	// runs.
	maxTokens = 10
	// maxAudience is how long an audience is at most, in bytes: it is in each token, and all tokens of a pod are in
	// one Secret.
	maxAudience = 1024
	// defaultExpiration is for how many seconds a token is asked for where a pod does not say.
	defaultExpiration = 3600
)

// Token is a token of its service account that a pod has.
type Token struct {
	// Key is its key in the host's Secret.
	Key string
	// Audience is for whom it is, empty for the API of the space.
	Audience string
	// ExpirationSeconds is for how long it is asked for.
	ExpirationSeconds int64
}

// TokensOf returns the tokens that a pod has, each of them once.
func TokensOf(spec *corev1.PodSpec) []Token {
	var all []Token
	eachToken(spec, nil, func(source *corev1.VolumeProjection, _ *field.Path) {
		all, _ = addToken(all, source.ServiceAccountToken)
	})
	return all
}

// tokenOf returns the token that a source is, without its key.
func tokenOf(source *corev1.ServiceAccountTokenProjection) Token {
	return Token{Audience: source.Audience, ExpirationSeconds: ptr.Deref(source.ExpirationSeconds, defaultExpiration)}
}

// addToken adds the token of a source, if it is another one than those that there are, and returns its index.
func addToken(all []Token, source *corev1.ServiceAccountTokenProjection) ([]Token, int) {
	t := tokenOf(source)
	for i := range all {
		if all[i].Audience == t.Audience && all[i].ExpirationSeconds == t.ExpirationSeconds {
			return all, i
		}
	}
	t.Key = fmt.Sprintf("token-%d", len(all))
	return append(all, t), len(all)
}

// eachToken calls f for each source of a volume that is a token, with its path.
func eachToken(spec *corev1.PodSpec, path *field.Path, f func(source *corev1.VolumeProjection, at *field.Path)) {
	for i := range spec.Volumes {
		projected := spec.Volumes[i].Projected
		if projected == nil {
			continue
		}
		for j := range projected.Sources {
			if source := &projected.Sources[j]; source.ServiceAccountToken != nil {
				f(source, path.Child("volumes").Index(i).Child("projected", "sources").Index(j).Child("serviceAccountToken"))
			}
		}
	}
}

// fromSecret has a pod of the host read its tokens in its Secret: those of the space's service accounts are no
// service accounts of the host.
func fromSecret(spec *corev1.PodSpec, pod types.UID) {
	var all []Token
	eachToken(spec, nil, func(source *corev1.VolumeProjection, _ *field.Path) {
		token, at := source.ServiceAccountToken, 0
		all, at = addToken(all, token)
		*source = corev1.VolumeProjection{Secret: &corev1.SecretProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: names.Tokens(pod)},
			Items:                []corev1.KeyToPath{{Key: all[at].Key, Path: token.Path, User: token.User}},
		}}
	})
}

// checkTokens refuses tokens that nobody could bear the cost of.
func checkTokens(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	different := map[Token]bool{}
	eachToken(spec, path, func(source *corev1.VolumeProjection, at *field.Path) {
		different[tokenOf(source.ServiceAccountToken)] = true
		if len(source.ServiceAccountToken.Audience) > maxAudience {
			errs = append(errs, field.Forbidden(at.Child("audience"), fmt.Sprintf("it is longer than %d bytes; name a shorter one", maxAudience)))
		}
	})
	if n := len(different); n > maxTokens {
		errs = append(errs, field.Forbidden(path.Child("volumes"), fmt.Sprintf("it asks for %d different tokens of its service account, and a pod that runs on a host cluster has at most %d; "+
			"let volumes share their audiences and times", n, maxTokens)))
	}
	return errs
}
