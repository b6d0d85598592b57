package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/test/harness"
)

// editionLabel says how often a pod has been changed.
const editionLabel = "edition"

// sides are what there is in spaces and on the host.
type sides struct {
	pods, hostPods []corev1.Pod
	secrets        []corev1.Secret
	// besides are what spaces have beside pods, and hostBeside what the host has.
	besides    []besidePods
	hostBeside beside
}

// sides reads the pods of spaces, and what is on the host of all spaces.
func (b *bench) sides(ctx context.Context) (s sides, err error) {
	host := b.everywhere.client.CoreV1()
	marked := metav1.ListOptions{LabelSelector: names.InstallationLabel}
	hostPods, err := host.Pods("").List(ctx, marked)
	if err != nil {
		return s, err
	}
	secrets, err := host.Secrets("").List(ctx, marked)
	if err != nil {
		return s, err
	}
	s.hostPods, s.secrets = hostPods.Items, secrets.Items
	if s.hostBeside, err = b.everywhere.readBeside(ctx, names.InstallationLabel); err != nil {
		return s, err
	}
	s.besides = make([]besidePods, len(b.spaces))
	var mu sync.Mutex
	_, err = harness.Each(0, len(b.spaces), 4, func(i int) error {
		list, err := b.spaces[i].client.CoreV1().Pods(b.spaces[i].namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		s.pods = append(s.pods, list.Items...)
		s.besides[i].addresses = sets.New[string]()
		for _, pod := range list.Items {
			s.besides[i].addresses.Insert(pod.Status.PodIP)
		}
		s.besides[i].beside, err = b.spaces[i].readBeside(ctx, "")
		return err
	})
	return s, err
}

// differences returns in what both sides are not what they are to be: wanted are the editions of the pods that are to
// be there.
func (s sides) differences(wanted map[types.UID]string) (all []string) {
	differ := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	onHost := map[types.UID]*corev1.Pod{}
	for i := range s.hostPods {
		of := markOf(&s.hostPods[i])
		if onHost[of] != nil {
			differ("the host has two pods for %s: %s and %s", of, onHost[of].Name, s.hostPods[i].Name)
		}
		onHost[of] = &s.hostPods[i]
	}
	tokens := s.tokens()
	missing := maps.Clone(wanted)
	for i := range s.pods {
		pod := &s.pods[i]
		edition, ok := wanted[pod.UID]
		if delete(missing, pod.UID); !ok {
			differ("pod %s (%s) was deleted, or never acknowledged, and is there", pod.Name, pod.UID)
		} else if pod.Labels[editionLabel] != edition {
			differ("pod %s has edition %q, and was given %q", pod.Name, pod.Labels[editionLabel], edition)
		}
		for _, what := range unlike(pod, onHost[pod.UID]) {
			differ("pod %s (%s): %s", pod.Name, pod.UID, what)
		}
		if host := onHost[pod.UID]; host != nil && tokens[host.Namespace+"/"+names.Tokens(pod.UID)] != host.UID {
			differ("pod %s (%s) has no Secret with its token on the host, or that of another pod", pod.Name, pod.UID)
		} else if host != nil {
			delete(tokens, host.Namespace+"/"+names.Tokens(pod.UID))
		}
		delete(onHost, pod.UID)
	}
	for uid := range missing {
		differ("the pod %s was created, and is in no space", uid)
	}
	for of, host := range onHost {
		differ("the host has pod %s/%s for %s, which is in no space", host.Namespace, host.Name, of)
	}
	for name := range tokens {
		differ("the host has the Secret %s of a pod that is in no space", name)
	}
	for i := range s.besides {
		all = append(all, s.besides[i].differences(&s.hostBeside)...)
	}
	all = append(all, s.hostBeside.surplus(s.besides)...)
	return slices.Sorted(slices.Values(all))
}

// unlike returns in what a pod of a space and the host's for it differ.
func unlike(pod, host *corev1.Pod) (all []string) {
	if host == nil {
		return []string{"it is not on the host"}
	}
	own := maps.Clone(host.Labels)
	maps.DeleteFunc(own, func(key, _ string) bool { return strings.HasPrefix(key, names.Prefix) })
	of, _ := names.Of(host.Labels, host.Annotations)
	for _, pair := range [][3]string{
		{"the host's pod whose status it has", pod.Annotations[names.HostUIDAnnotation], string(host.UID)},
		{"the name", pod.Name, host.Annotations[names.NameAnnotation]}, {"the host's namespace", of.Host(), host.Namespace},
		{"labels", fmt.Sprint(pod.Labels), fmt.Sprint(own)}, {"the node", pod.Spec.NodeName, host.Spec.NodeName},
		{"the phase", string(pod.Status.Phase), string(host.Status.Phase)}, {"the phase that both are to have", string(pod.Status.Phase), string(corev1.PodRunning)},
		{"the address", pod.Status.PodIP, host.Status.PodIP},
	} {
		if pair[1] != pair[2] {
			all = append(all, fmt.Sprintf("%s: %q in the space, and %q", pair[0], pair[1], pair[2]))
		}
	}
	return all
}

// tokens returns the Secrets of the host that have the tokens of pods, with the host's pods that they go with.
func (s sides) tokens() map[string]types.UID {
	found := map[string]types.UID{}
	for i := range s.secrets {
		secret := &s.secrets[i]
		if secret.Name != names.Tokens(markOf(secret)) {
			continue // a copy of a Secret of a space
		}
		owner := metav1.OwnerReference{}
		if len(secret.OwnerReferences) == 1 {
			owner = secret.OwnerReferences[0]
		}
		found[secret.Namespace+"/"+secret.Name] = owner.UID
	}
	return found
}

// halfway returns how many pods are on the host without their token or, with a node, without their space knowing of it;
// and how many are there that are in no space any more.
func (s sides) halfway() (begun, orphans int) {
	tokens, pods := s.tokens(), map[types.UID]*corev1.Pod{}
	for i := range s.pods {
		pods[s.pods[i].UID] = &s.pods[i]
	}
	for i := range s.hostPods {
		host := &s.hostPods[i]
		switch pod := pods[markOf(host)]; {
		case pod == nil:
			orphans++
		case tokens[host.Namespace+"/"+names.Tokens(pod.UID)] == "" || host.Spec.NodeName != "" && pod.Annotations[names.HostUIDAnnotation] == "":
			begun++
		}
	}
	return begun, orphans
}

// markOf returns the UID of what an object of the host is made of.
func markOf(host metav1.Object) types.UID {
	return types.UID(host.GetAnnotations()[names.UIDAnnotation])
}

// twice notices pods of spaces that the host has, or has had, two pods for.
type twice struct {
	mu    sync.Mutex
	hosts map[types.UID]types.UID
	found []string
}

// see is told of the host's pods. One that goes is not forgotten: it goes because the syncer has deleted it.
func (t *twice) see(host *corev1.Pod, _ bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	of := markOf(host)
	switch first, seen := t.hosts[of]; {
	case !seen:
		t.hosts[of] = host.UID
	case first != host.UID:
		t.found = append(t.found, fmt.Sprintf("pod %s (%s) was on the host as %s, and then as %s", host.Name, of, first, host.UID))
		t.hosts[of] = host.UID
	}
}

// missed returns which of the host's pods were not seen: what has missed one proves nothing.
func (t *twice) missed(hostPods []corev1.Pod) (all []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range hostPods {
		if of := markOf(&hostPods[i]); t.hosts[of] != hostPods[i].UID {
			all = append(all, fmt.Sprintf("pod %s (%s) is on the host as %s, and was seen as %q", hostPods[i].Name, of, hostPods[i].UID, t.hosts[of]))
		}
	}
	return all
}

// all returns for how many pods of spaces the host has had one, and what it had twice.
func (t *twice) all() (pods int, found []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.hosts), t.found
}
