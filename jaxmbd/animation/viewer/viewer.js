// The page that shows a run: a glTF scene in the middle, time below, a strip chart beside it.
// Bundled with three.js into viewer.min.js by `npm install && npm run build` in this folder.
import {
  AmbientLight, AnimationMixer, BufferGeometry, Color, DirectionalLight, Float32BufferAttribute, Fog, HemisphereLight, LineBasicMaterial,
  LineSegments, Matrix4, Mesh, PCFShadowMap, PerspectiveCamera, PlaneGeometry, Scene, ShadowMaterial, SRGBColorSpace, Vector3, WebGLRenderer,
} from 'three'
import { OrbitControls } from 'three/examples/jsm/controls/OrbitControls.js'
import { GLTFLoader } from 'three/examples/jsm/loaders/GLTFLoader.js'
import { Charts } from './charts.js'

const element = (id) => document.getElementById(id)
const BACKGROUND = new Color('#f6f7f9')

class Viewer {
  constructor(about) {
    this.about = about
    this.playing = false
    this.duration = about.duration
    this.tau = 0 // seconds of playback
    this.rate = 1 // seconds of playback in a second on the clock
    this.renderer = new WebGLRenderer({ canvas: element('canvas'), antialias: true, preserveDrawingBuffer: true })
    this.renderer.outputColorSpace = SRGBColorSpace
    this.renderer.setPixelRatio(Math.min(window.devicePixelRatio || 1, 2))
    this.renderer.shadowMap.enabled = true
    this.renderer.shadowMap.type = PCFShadowMap
    this.scene = new Scene()
    this.scene.background = BACKGROUND
    this.camera = new PerspectiveCamera(26, 1, 0.01, 100)
    this.controls = new OrbitControls(this.camera, element('canvas'))
    this.controls.addEventListener('change', () => this.draw())
  }

  async load(binary) {
    const gltf = await new GLTFLoader().parseAsync(binary, '')
    this.world = gltf.scene.getObjectByName('world')
    this.scene.add(gltf.scene)
    this.mixer = new AnimationMixer(gltf.scene)
    for (const clip of gltf.animations) this.mixer.clipAction(clip).play()
    this.groups = {}
    this.named = {}
    gltf.scene.traverse((node) => {
      this.named[node.userData.name] ??= node // the loader changes node.name where it has brackets or dots
      const group = node.userData.group
      if (group) (this.groups[group] ||= []).push(node)
      node.frustumCulled = false
      if (node.isMesh && !node.isLine) {
        const arrow = Boolean(node.userData.group)
        if (arrow) Object.assign(node, { renderOrder: 1, material: overlaid(node.material) })
        node.castShadow = !arrow && !node.material.transparent
        node.receiveShadow = node.castShadow && !this.about.planar
      }
    })
    this.traces = (this.groups.traces || []).map((node) => (node.isLine ? node : node.children[0]))
    for (const name in this.groups) this.show(name, name === 'traces')
    this.target = this.about.follow ? this.named[this.about.follow] : null
    this.light()
    this.lay()
    this.resize()
    this.look()
    this.seek(this.about.start)
  }

  light() {
    const size = this.about.size
    this.scene.add(new HemisphereLight('#ffffff', '#b8bcc4', 2.0), new AmbientLight('#ffffff', 0.5))
    const sun = new DirectionalLight('#ffffff', 2.2)
    sun.castShadow = true
    sun.shadow.mapSize.set(2048, 2048)
    sun.shadow.normalBias = 0.004 * size
    sun.shadow.bias = -0.0005
    sun.shadow.radius = 3
    this.sun = sun
    this.scene.add(sun, sun.target)
  }

  // The level floor: a grid of round numbers of metres, and shadows on it.
  lay() {
    const { floor, size } = this.about
    if (floor === null) return
    const reach = Math.max(6 * size, this.about.reach + 4 * size)
    const cell = roundNumber(size / 4)
    const count = Math.min(2 * Math.ceil(reach / cell / 2), 160)
    const grid = new LineSegments(squares(count, cell), new LineBasicMaterial({ color: '#d3d7de' }))
    const shadow = new Mesh(new PlaneGeometry(count * cell, count * cell).rotateX(-Math.PI / 2), new ShadowMaterial({ opacity: 0.22 }))
    shadow.receiveShadow = true
    const middle = new Vector3(...this.about.middle)
    for (const [item, sink] of [[grid, 0.002], [shadow, 0.001]]) {
      item.position.set(Math.round(middle.x / cell) * cell, floor - sink * size, Math.round(middle.z / cell) * cell)
      this.scene.add(item)
    }
    this.scene.fog = new Fog(BACKGROUND, 8 * size, 8 * size + reach)
  }

  // The camera where all of the motion is in the picture.
  look() {
    this.apply()
    const direction = new Vector3(...this.about.camera).normalize()
    const up = Math.abs(direction.y) > 0.99 ? new Vector3(0, 0, -1) : new Vector3(0, 1, 0)
    const right = new Vector3().crossVectors(up, direction).normalize()
    const above = new Vector3().crossVectors(direction, right)
    const slope = Math.tan((this.camera.fov * Math.PI) / 360)
    const points = this.about.points.map((point) => new Vector3(...point))
    const side = points.map((point) => point.dot(right))
    const height = points.map((point) => point.dot(above))
    const half = (values) => 0.5 * (Math.max(...values) + Math.min(...values))
    const middle = new Vector3().addScaledVector(right, half(side)).addScaledVector(above, half(height))
    middle.addScaledVector(direction, half(points.map((point) => point.dot(direction))))
    const pixels = element('stage').clientHeight
    const room = pixels / Math.max(pixels - 70, 0.5 * pixels) // for title and time
    let distance = 0
    points.forEach((point, i) => {
      const wide = Math.abs(side[i] - middle.dot(right)) / (slope * this.camera.aspect)
      const tall = Math.abs(height[i] - middle.dot(above)) / slope
      distance = Math.max(distance, Math.max(1.08 * wide, room * tall) + point.dot(direction) - middle.dot(direction))
    })
    this.offset = this.target ? this.place(this.target).sub(new Vector3(...this.about.followed)) : new Vector3()
    middle.add(this.offset)
    this.camera.position.copy(middle).addScaledVector(direction, distance)
    this.camera.near = distance / 200
    this.camera.far = distance * 10 + 20 * (this.about.size + this.about.reach)
    this.camera.updateProjectionMatrix()
    this.controls.target.copy(middle)
    this.controls.minDistance = 0.05 * this.about.size
    this.last = this.target ? this.place(this.target) : null
    if (this.scene.fog) Object.assign(this.scene.fog, { near: 1.5 * distance, far: 1.5 * distance + 4 * this.about.size })
    this.controls.update()
    this.draw()
  }

  place(node) {
    node.updateWorldMatrix(true, false)
    return new Vector3().setFromMatrixPosition(node.matrixWorld)
  }

  // All nodes where they are at this.tau.
  apply() {
    this.mixer.setTime(Math.min(this.tau, this.duration * (1 - 1e-7)))
    this.world.updateMatrixWorld(true)
    const share = this.duration > 0 ? this.tau / this.duration : 1
    for (const line of this.traces) line.geometry.setDrawRange(0, Math.ceil(share * (line.geometry.attributes.position.count - 1)) + 1)
    if (this.target && this.last) {
      const now = this.place(this.target)
      const shift = now.clone().sub(this.last)
      this.camera.position.add(shift)
      this.controls.target.add(shift)
      this.last = now
    }
  }

  draw() {
    if (!this.sun) return
    const { size } = this.about
    const reach = this.target ? size : Math.max(size, this.about.reach)
    const focus = this.target ? this.controls.target : new Vector3(...this.about.middle)
    this.sun.target.position.copy(focus)
    this.sun.position.copy(focus).add(new Vector3(0.5, 1.6, 0.9).multiplyScalar(2 * reach))
    const box = this.sun.shadow.camera
    box.left = box.bottom = -1.3 * reach
    box.right = box.top = 1.3 * reach
    box.near = 0.1 * reach
    box.far = 8 * reach
    box.updateProjectionMatrix()
    this.renderer.render(this.scene, this.camera)
  }

  get time() {
    return this.about.start + this.tau * this.about.speed
  }

  seek(time) {
    this.tau = Math.min(Math.max((time - this.about.start) / this.about.speed, 0), this.duration)
    this.apply()
    this.controls.update()
    this.draw()
    element('slider').value = this.duration > 0 ? this.tau / this.duration : 0
    element('time').textContent = `t = ${time_text(this.time, this.about)} s`
    this.charts?.point(this.time)
  }

  play() {
    if (this.tau >= this.duration) this.tau = 0
    this.playing = true
    this.clock = null
    element('play').textContent = '❚❚'
    requestAnimationFrame((now) => this.step(now))
  }

  pause() {
    this.playing = false
    element('play').textContent = '▶'
  }

  step(now) {
    if (!this.playing) return
    const passed = this.clock === null ? 0 : Math.min((now - this.clock) / 1000, 0.25)
    this.clock = now
    let tau = this.tau + passed * this.rate
    if (tau >= this.duration) tau = element('loop').checked ? 0 : this.duration
    this.seek(this.about.start + tau * this.about.speed)
    if (this.tau >= this.duration && !element('loop').checked) return this.pause()
    requestAnimationFrame((later) => this.step(later))
  }

  // Without controls, for films.
  film() {
    document.body.classList.add('film')
    this.resize()
    this.look()
  }

  show(name, visible) {
    for (const node of this.groups[name] || []) node.visible = visible
    this.draw()
  }

  // Where a body is, in the run's own axes.
  position(name) {
    const back = new Matrix4().copy(this.world.matrixWorld).invert()
    return this.place(this.named[name]).applyMatrix4(back).toArray()
  }

  resize() {
    const stage = element('stage')
    const [width, height] = [Math.max(stage.clientWidth, 1), Math.max(stage.clientHeight, 1)]
    this.renderer.setSize(width, height, false)
    this.camera.aspect = width / height
    this.camera.updateProjectionMatrix()
    this.charts?.draw()
    this.draw()
  }
}

// Arrows are seen through what they act on.
const overlaid = (material) => Object.assign(material, { depthTest: false, transparent: true })

// In short pieces: some drivers lose lines that begin behind the camera.
function squares(count, cell) {
  const points = []
  const at = (i) => (i - count / 2) * cell
  for (let i = 0; i <= count; i++)
    for (let j = 0; j < count; j++) points.push(at(i), 0, at(j), at(i), 0, at(j + 1), at(j), 0, at(i), at(j + 1), 0, at(i))
  return new BufferGeometry().setAttribute('position', new Float32BufferAttribute(points, 3))
}

function roundNumber(value) {
  const power = 10 ** Math.floor(Math.log10(value))
  return [1, 2, 5, 10].find((digit) => digit * power >= value * 0.7) * power
}

function time_text(time, about) {
  const digits = Math.max(0, Math.ceil(-Math.log10((about.end - about.start || 1) / 1000)))
  return time.toFixed(digits)
}

function speed_text(speed) {
  if (speed >= 1) return `${Number(speed.toPrecision(3))}× speed`
  return `${Number((1 / speed).toPrecision(3))}× slower`
}

function connect(viewer) {
  const { about } = viewer
  element('play').onclick = () => (viewer.playing ? viewer.pause() : viewer.play())
  element('slider').oninput = (event) => viewer.seek(about.start + event.target.value * (about.end - about.start))
  element('home').onclick = () => viewer.look()
  for (const factor of [0.1, 0.25, 0.5, 1, 2, 4]) {
    const option = new Option(about.speed * factor === 1 ? 'real time' : speed_text(about.speed * factor), factor, factor === 1, factor === 1)
    element('speed').add(option)
  }
  element('speed').onchange = (event) => (viewer.rate = Number(event.target.value))
  for (const name in viewer.groups) {
    const label = document.createElement('label')
    const box = document.createElement('input')
    const longest = about.longest[name]
    box.type = 'checkbox'
    box.checked = name === 'traces' || about.shown.includes(name)
    box.onchange = () => viewer.show(name, box.checked)
    viewer.show(name, box.checked)
    label.append(box, ` ${name}`)
    if (longest) {
      label.title = `arrows have their full length from ${longest[0].toPrecision(3)} N on`
      label.append(document.createElement('small'))
      label.lastChild.textContent = ` (full length ${longest[0].toPrecision(2).replace('e+', 'e')} N)`
    }
    element('groups').append(label)
  }
  window.addEventListener('keydown', (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
    if (event.key === ' ') element('play').click()
    else if (step && event.target.id !== 'slider') viewer.seek(viewer.time + (step * (about.end - about.start)) / 200)
    else return
    event.preventDefault()
  })
  new ResizeObserver(() => viewer.resize()).observe(element('stage'))
}

window.jaxmbdShow = async (about, binary) => {
  const viewer = new Viewer(about)
  window.jaxmbd = viewer
  if (about.curves.length) {
    element('charts').hidden = false
    viewer.charts = new Charts(element('charts'), about, (time) => viewer.seek(time))
  }
  await viewer.load(binary)
  connect(viewer)
  viewer.resize()
  viewer.look()
  document.body.classList.add('ready')
  if (about.autoplay) viewer.play()
  return true
}
