package sync

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/tenantry/tenantry/internal/tenant"
	"github.com/tenantry/tenantry/internal/workloads/names"
	"github.com/tenantry/tenantry/internal/workloads/translate"
)

// versionAnnotation says which version of its source a copy is.
const versionAnnotation = names.Prefix + "version"

// copies are what the host has of ConfigMaps and Secrets, by its namespaces. A namespace is read when a
// copy in it is first asked for: there is no right to watch Secrets of the host, and no need to.
type copies struct {
	mu          sync.Mutex
	byNamespace map[string]*copiesIn
}

// copiesIn are the copies in one namespace of the host. The lock is held while they are written.
type copiesIn struct {
	// of is the UID of the namespace: another one of its name has other copies.
	of types.UID
	mu sync.Mutex
	// read is whether have is what there is.
	read bool
	// have are the versions of the sources of which there are copies, and the UIDs of these.
	have map[reference]copied
	// absent are sources that pods name and that were not there, and when that was.
	absent map[reference]time.Time
	tokens tokenSecrets
	// asked are items that found the lock taken. They are queued when it is released. Guarded by copies.mu.
	asked map[item]bool
}

type copied struct {
	version string
	// hash is of what it has.
	hash string
	uid  types.UID
	// unfit is why there is none of this version of a certificate.
	unfit error
}

// maxCopying is for how long a worker makes copies for one pod or Ingress, before others have their turns: chosen, some
// twenty of them.
const maxCopying = 200 * time.Millisecond

// soon is for how long something waits that waits for nothing but another turn.
const soon = time.Nanosecond

// of returns the copies in a namespace of the host of some UID, or, without one, in that of which it was last asked
// for.
func (c *copies) of(host string, uid types.UID) *copiesIn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if in := c.byNamespace[host]; in == nil || uid != "" && in.of != uid {
		c.byNamespace[host] = &copiesIn{of: uid, have: map[reference]copied{}, absent: map[reference]time.Time{}, asked: map[item]bool{}}
	}
	return c.byNamespace[host]
}

// has reports whether copies are known in a namespace of the host, which the cache may not have yet.
func (c *copies) has(host string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.byNamespace[host] != nil
}

// copiesOf returns the copies in a namespace of the host that the cache knows, or that has just been made.
func (s *syncer) copiesOf(home names.Namespace) *copiesIn {
	var uid types.UID
	if found, err := s.hostCaches.namespace(home.Host()); err == nil && found != nil {
		uid = found.UID
	}
	return s.copies.of(home.Host(), uid)
}

// tryLock locks the copies in a namespace. If somebody else has, an item is to be looked at when that one has done.
func (c *copies) tryLock(in *copiesIn, asks item) bool {
	if in.mu.TryLock() {
		return true
	}
	c.mu.Lock()
	in.asked[asks] = true
	c.mu.Unlock()
	return in.mu.TryLock() // that one may have done before it could know
}

// wakeAskers has the items looked at that have found the copies in a namespace locked. Whoever has locked them calls it
// in the end, unless somebody else has them by then.
func (s *syncer) wakeAskers(in *copiesIn) {
	s.copies.mu.Lock()
	defer s.copies.mu.Unlock()
	for i := range in.asked {
		s.queue.Add(i)
	}
	clear(in.asked)
}

// forget forgets the copies in a namespace of the host, but not those in another one of its name.
func (c *copies) forget(host string, uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if in := c.byNamespace[host]; in != nil && in.of == uid {
		delete(c.byNamespace, host)
	}
}

// syncCopy makes the copy of a ConfigMap or Secret that live pods or Ingresses name what its source is, and takes away
// what none names.
func (s *syncer) syncCopy(ctx context.Context, i item) error {
	home, _, err := s.homeOf(i.namespace)
	if err != nil {
		return nil // what was there goes with the host's namespace
	}
	if found, err := s.hostCaches.namespace(home.Host()); err != nil || found == nil && !s.copies.has(home.Host()) {
		return err // there is no copy, and no pod yet
	}
	in := s.copiesOf(home)
	if !s.copies.tryLock(in, i) {
		return nil
	}
	defer s.wakeAskers(in)
	defer in.mu.Unlock()
	ref := reference{i.kind, i.namespace, i.name}
	if err := s.ensureRead(ctx, home, in); err != nil {
		return err
	}
	if in.have[ref].uid == "" && s.references.has(ref) && in.absent[ref].IsZero() { // what has begun may not be in the cache yet
		if named, err := s.isNamedOnHost(ref); err != nil || !named {
			return err // what begins on the host has it copied, and what waits has not
		}
	}
	wait, err := s.ensureCopy(ctx, home, in, ref, s.clock.Now())
	s.queue.after(i, wait)
	if unfit := in.have[ref].unfit; unfit != nil {
		err = errors.Join(err, s.recordCertificateOnAll(ctx, ref, unfit))
	}
	return err
}

// isNamedOnHost reports whether something on the host names a source that is named.
func (s *syncer) isNamedOnHost(ref reference) (bool, error) {
	if ref.kind == certificateItem {
		return true, nil // references are of Ingresses that are on the host
	}
	for _, name := range s.references.namesOf(ref) {
		if there, err := s.hostCaches.podsOf(ref.namespace, name); err != nil || len(there) > 0 {
			return err == nil, err
		}
	}
	return false, nil
}

// ensureCopies makes the copies that a pod names. If it waits for them, it is looked at again.
func (s *syncer) ensureCopies(ctx context.Context, pod *corev1.Pod, home names.Namespace, in *copiesIn) (wait time.Duration, err error) {
	return s.ensureNamed(ctx, itemOf(podItem, pod), home, in, pod.CreationTimestamp, referencesOf(pod))
}

// ensureNamed makes the copies of what an item names that was made at some time, and returns for how long it waits for
// them, which is soon if it waits for others that are at work. If so, it is looked at again.
func (s *syncer) ensureNamed(ctx context.Context, i item, home names.Namespace, in *copiesIn, made metav1.Time, named []reference) (wait time.Duration, err error) {
	began := s.clock.Now()
	since := made.Add(time.Second) // it has no fractions of a second
	busy := false
	defer func() {
		if !busy {
			s.wakeAskers(in)
		}
	}()
	for _, ref := range named {
		if !s.references.has(ref) { // the cache has the item, and its handler, which queues it, has not run: without a name, a copy is removed
			return soon, nil
		}
		if busy = !s.copies.tryLock(in, i); busy {
			return soon, nil
		}
		wait, err := s.ensureCopy(ctx, home, in, ref, since)
		unfit := in.have[ref].unfit
		in.mu.Unlock()
		if err == nil && unfit != nil {
			err = s.recordCertificate(ctx, i, ref, unfit)
		}
		if err != nil {
			return 0, err
		}
		if wait == 0 && s.clock.Since(began) > maxCopying {
			wait = soon
		}
		if s.queue.after(i, wait) {
			return wait, nil
		}
	}
	return 0, nil
}

// ensureCopy makes a copy what it is to be. A source that was not there after some time is not looked for again. It
// returns for how long that is to wait. The lock is held.
func (s *syncer) ensureCopy(ctx context.Context, home names.Namespace, in *copiesIn, ref reference, since time.Time) (time.Duration, error) {
	if err := s.ensureRead(ctx, home, in); err != nil {
		return 0, err
	}
	has := in.have[ref]
	if s.references.has(ref) {
		version, known := s.sourceVersion(home.Tenant, ref)
		if known && version == has.version || !known && has.uid == "" && in.absent[ref].After(since) {
			return 0, nil
		}
		source, err := s.source(ctx, home.Tenant, ref)
		if err == nil {
			return s.writeCopy(ctx, home, in, ref, source)
		}
		unfit := unfitError{}
		if errors.As(err, &unfit) {
			if err := s.removeCopy(ctx, home, in, ref, has); err != nil {
				return 0, err
			}
			in.have[ref] = copied{version: source.version, unfit: unfit} // known, as each look at an Ingress would read it again
			return 0, nil
		}
		if !apierrors.IsNotFound(err) {
			return 0, fmt.Errorf("reading %q of a space: %w", ref.name, err)
		}
		in.absent[ref] = s.clock.Now()
	} else {
		delete(in.absent, ref)
		s.writeBudgets.drop(ref.item())
	}
	return 0, s.removeCopy(ctx, home, in, ref, has)
}

// ensureRead reads which copies, and Secrets with tokens, there are in a namespace of the host, if that is not known,
// and has copies looked at that no pod names. The lock is held.
func (s *syncer) ensureRead(ctx context.Context, home names.Namespace, in *copiesIn) error {
	if in.read {
		return nil
	}
	in.have = map[reference]copied{}
	in.tokens.Clear()
	options := metav1.ListOptions{LabelSelector: labels.Set{names.InstallationLabel: s.installation}.String()}
	for _, kind := range []kind{configMapItem, secretItem} {
		resource := copiedResources[kind]
		list, err := s.hostMetadata.Resource(resource).Namespace(home.Host()).List(ctx, options)
		if err != nil {
			return fmt.Errorf("listing %s of the host's namespace %q: %w", resource.Resource, home.Host(), err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			of, complete := names.Of(o.Labels, o.Annotations)
			name := o.Annotations[names.NameAnnotation]
			ref := reference{kind, home.Flat(), name}
			if kind == secretItem && o.Name == names.Certificate(name) {
				ref.kind = certificateItem
			}
			if !complete || of != home || kind == secretItem && in.tokens.note(o) || o.Name != ref.copyName() {
				continue // it is reported when its name is needed
			}
			in.have[ref] = copied{version: o.Annotations[versionAnnotation], hash: o.Annotations[hashAnnotation], uid: o.UID}
			if !s.references.has(ref) {
				s.queue.Add(ref.item())
			}
		}
	}
	in.read = true
	return nil
}

// sourceVersion returns the version of a source, if the cache knows it.
func (s *syncer) sourceVersion(n tenant.Name, ref reference) (string, bool) {
	var o metav1.Object
	var err error
	if ref.kind == configMapItem {
		o, err = s.configMaps.ConfigMaps(ref.namespace.String()).Get(ref.name)
	} else {
		o, err = s.secrets.Secrets(ref.namespace.String()).Get(ref.name)
	}
	if err != nil {
		return "", false
	}
	return s.versionOf(n, ref, o), true
}

// versionOf returns the version of a source. What there is of a certificate depends on the names that its tenant has,
// too.
func (s *syncer) versionOf(n tenant.Name, ref reference, o metav1.Object) string {
	version := string(o.GetUID()) + "/" + o.GetResourceVersion()
	if ref.kind == certificateItem {
		version += "/" + names.Hash([]any{s.rulesFor(n).HostNames, translate.CertificateRules})
	}
	return version
}

// content is what a copy has of its source.
type content struct {
	of         metav1.Object
	data       map[string]string
	binary     map[string][]byte
	secretType corev1.SecretType
	version    string
}

// source reads a ConfigMap or Secret of a space, of which the cache has no content.
func (s *syncer) source(ctx context.Context, n tenant.Name, ref reference) (content, error) {
	if ref.kind != configMapItem {
		secret, err := s.spaces.CoreV1().Secrets(ref.namespace.String()).Get(ctx, ref.name, metav1.GetOptions{})
		if err != nil {
			return content{}, err
		}
		c := content{of: secret, binary: secret.Data, secretType: copiedType(secret.Type), version: s.versionOf(n, ref, secret)}
		if ref.kind == certificateItem {
			c.secretType = corev1.SecretTypeTLS
			c.binary, err = s.certificate(n, secret)
		}
		return c, err
	}
	configMap, err := s.spaces.CoreV1().ConfigMaps(ref.namespace.String()).Get(ctx, ref.name, metav1.GetOptions{})
	if err != nil {
		return content{}, err
	}
	return content{of: configMap, data: configMap.Data, binary: configMap.BinaryData, version: s.versionOf(n, ref, configMap)}, nil
}

// copiedType returns the type of a Secret's copy. Those by which kubelets pull images have theirs. A host does
// things of its own with others: it puts a token of its own into one of the type service-account-token.
func copiedType(of corev1.SecretType) corev1.SecretType {
	if of == corev1.SecretTypeDockercfg || of == corev1.SecretTypeDockerConfigJson {
		return of
	}
	return corev1.SecretTypeOpaque
}

// hash returns what a copy is known by that has nothing else, and its size in bytes.
func (c content) hash() (hash string, size int) {
	for key, value := range c.data {
		size += len(key) + len(value)
	}
	for key, value := range c.binary {
		size += len(key) + len(value)
	}
	return names.Hash([]any{c.of.GetUID(), c.data, c.binary, c.secretType}), size
}

// writeCopy makes a copy, or changes it if it has something else. It returns for how long that is to wait.
func (s *syncer) writeCopy(ctx context.Context, home names.Namespace, in *copiesIn, ref reference, source content) (time.Duration, error) {
	delete(in.absent, ref)
	before := in.have[ref]
	hash, size := source.hash()
	if before.hash == hash {
		before.version = source.version
		in.have[ref] = before
		return 0, nil
	}
	write := itemWrite{ref.item(), writeUpdate}
	if wait := s.writeBudgets[copyBudget].wait(write, max(size, leastCopy)); wait > 0 {
		return wait, nil
	}
	if ref.kind == certificateItem {
		if wait := s.writeBudgets[routeBudget].wait(write, 1); wait > 0 {
			return wait, nil
		}
	}
	meta := home.Meta(ref.copyName(), source.of)
	meta.Annotations[versionAnnotation], meta.Annotations[hashAnnotation] = source.version, hash
	written, err := s.putCopy(ctx, ref.kind, meta, source, before)
	if apierrors.IsAlreadyExists(err) {
		in.read = false // it may be ours, of which an answer was lost
		return 0, fmt.Errorf("the host's namespace %q has %q already, which is not of this installation; whoever administers the host is to remove it", home.Host(), meta.Name)
	}
	if err != nil {
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) {
			in.read = false // somebody else has changed it
		}
		return 0, fmt.Errorf("copying %q to the host's namespace %q: %w", ref.name, home.Host(), err)
	}
	in.have[ref] = copied{version: meta.Annotations[versionAnnotation], hash: hash, uid: written.GetUID()}
	return 0, nil
}

// putCopy creates a copy or, with the UID of the one that there is, replaces it. A Secret's type cannot be
// changed: it is made again.
func (s *syncer) putCopy(ctx context.Context, kind kind, meta metav1.ObjectMeta, source content, before copied) (metav1.Object, error) {
	meta.UID = before.uid
	if kind != configMapItem {
		secret := &corev1.Secret{ObjectMeta: meta, Data: source.binary, Type: source.secretType}
		client := s.host.CoreV1().Secrets(meta.Namespace)
		if before.uid == "" {
			return client.Create(ctx, secret, metav1.CreateOptions{})
		}
		updated, err := client.Update(ctx, secret, metav1.UpdateOptions{})
		if !apierrors.IsInvalid(err) {
			return updated, err
		}
		if err := client.Delete(ctx, meta.Name, *metav1.NewPreconditionDeleteOptions(string(before.uid))); err != nil {
			return nil, err
		}
		secret.UID = ""
		return client.Create(ctx, secret, metav1.CreateOptions{})
	}
	configMap := &corev1.ConfigMap{ObjectMeta: meta, Data: source.data, BinaryData: source.binary}
	client := s.host.CoreV1().ConfigMaps(meta.Namespace)
	if before.uid == "" {
		return client.Create(ctx, configMap, metav1.CreateOptions{})
	}
	return client.Update(ctx, configMap, metav1.UpdateOptions{})
}

// removeCopy deletes a copy, if there is one.
func (s *syncer) removeCopy(ctx context.Context, home names.Namespace, in *copiesIn, ref reference, has copied) error {
	if has.uid == "" {
		delete(in.have, ref)
		return nil
	}
	options := *metav1.NewPreconditionDeleteOptions(string(has.uid))
	name := ref.copyName()
	err := s.hostMetadata.Resource(copiedResources[ref.kind]).Namespace(home.Host()).Delete(ctx, name, options)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting %q of the host's namespace %q: %w", name, home.Host(), err)
	}
	delete(in.have, ref)
	return nil
}

var copiedResources = map[kind]schema.GroupVersionResource{
	configMapItem:   corev1.SchemeGroupVersion.WithResource("configmaps"),
	secretItem:      corev1.SchemeGroupVersion.WithResource("secrets"),
	certificateItem: corev1.SchemeGroupVersion.WithResource("secrets"),
}
