// Strip charts: one panel a unit, curves over time, a cursor that follows the picture.
const COLORS = ['#3b7dd8', '#e08e2b', '#3fa56b', '#c8543f', '#8a63c9', '#2fa3a8', '#c9628f', '#9a8248']
const [LEFT, RIGHT, TOP, BOTTOM] = [58, 12, 24, 30]

export class Charts {
  constructor(container, about, seek) {
    this.about = about
    this.time = about.start
    this.panels = about.curves.map((panel) => {
      const canvas = document.createElement('canvas')
      container.append(canvas)
      const drag = (event) => {
        if (event.buttons !== 1 && event.type !== 'pointerdown') return
        const box = canvas.getBoundingClientRect()
        const share = (event.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT)
        seek(about.start + Math.min(Math.max(share, 0), 1) * (about.end - about.start))
      }
      canvas.addEventListener('pointerdown', drag)
      canvas.addEventListener('pointermove', drag)
      const values = panel.lines.flatMap((line) => line.values)
      let [low, high] = values.reduce(([a, b], y) => [Math.min(a, y), Math.max(b, y)], [Infinity, -Infinity])
      const room = 0.06 * (high - low) || 0.5 * Math.abs(high) || 1
      return { ...panel, canvas, low: low - room, high: high + room }
    })
  }

  point(time) {
    this.time = time
    this.draw()
  }

  draw() {
    this.panels.forEach((panel, i) => this.drawPanel(panel, i === this.panels.length - 1))
  }

  drawPanel(panel, last) {
    const { canvas, low, high } = panel
    const ratio = window.devicePixelRatio || 1
    const [width, height] = [canvas.clientWidth, canvas.clientHeight]
    canvas.width = width * ratio
    canvas.height = height * ratio
    const pen = canvas.getContext('2d')
    pen.scale(ratio, ratio)
    pen.clearRect(0, 0, width, height)
    const { start, end } = this.about
    const x = (t) => LEFT + ((t - start) / (end - start || 1)) * (width - LEFT - RIGHT)
    const y = (v) => height - BOTTOM - ((v - low) / (high - low)) * (height - TOP - BOTTOM)
    pen.font = '11px system-ui, sans-serif'
    pen.fillStyle = '#59606b'
    pen.strokeStyle = '#e3e6ea'
    pen.lineWidth = 1
    pen.textAlign = 'right'
    pen.textBaseline = 'middle'
    for (const v of ticks(low, high, Math.max(2, Math.floor(height / 45)))) {
      pen.beginPath()
      pen.moveTo(LEFT, y(v))
      pen.lineTo(width - RIGHT, y(v))
      pen.stroke()
      pen.fillText(number(v), LEFT - 6, y(v))
    }
    pen.textAlign = 'center'
    pen.textBaseline = 'top'
    for (const t of ticks(start, end, 5)) {
      pen.beginPath()
      pen.moveTo(x(t), TOP)
      pen.lineTo(x(t), height - BOTTOM)
      pen.stroke()
      pen.fillText(number(t), x(t), height - BOTTOM + 4)
    }
    if (last) pen.fillText('time [s]', LEFT + (width - LEFT - RIGHT) / 2, height - 13)
    let at = LEFT
    pen.textAlign = 'left'
    pen.textBaseline = 'alphabetic'
    panel.lines.forEach((line, i) => {
      pen.strokeStyle = pen.fillStyle = COLORS[i % COLORS.length]
      pen.lineWidth = 1.6
      pen.beginPath()
      line.times.forEach((t, k) => (k ? pen.lineTo(x(t), y(line.values[k])) : pen.moveTo(x(t), y(line.values[k]))))
      pen.stroke()
      const now = valueAt(line, this.time)
      pen.beginPath()
      pen.arc(x(this.time), y(now), 3.2, 0, 7)
      pen.fill()
      const text = `${line.name} ${number(now, 4)} ${panel.unit === '1' ? '' : panel.unit}   `
      pen.fillText(text, at, 15)
      at += pen.measureText(text).width
    })
    pen.strokeStyle = '#20242a'
    pen.lineWidth = 1
    pen.beginPath()
    pen.moveTo(x(this.time), TOP)
    pen.lineTo(x(this.time), height - BOTTOM)
    pen.stroke()
  }
}

function valueAt({ times, values }, time) {
  let [low, high] = [0, times.length - 1]
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (times[middle] <= time) low = middle
    else high = middle
  }
  const step = times[high] - times[low]
  return step > 0 ? values[low] + ((values[high] - values[low]) * Math.min(Math.max(time - times[low], 0), step)) / step : values[high]
}

function ticks(low, high, count) {
  const raw = (high - low) / count || 1
  const power = 10 ** Math.floor(Math.log10(raw))
  const step = [1, 2, 5, 10].find((digit) => digit * power >= raw) * power
  const found = []
  for (let value = Math.ceil(low / step) * step; value <= high + 1e-9 * step; value += step) found.push(Math.abs(value) < 1e-9 * step ? 0 : value)
  return found
}

function number(value, digits = 3) {
  if (value === 0) return '0'
  const size = Math.abs(value)
  return size >= 1e5 || size < 1e-3 ? value.toExponential(digits - 2) : String(Number(value.toPrecision(digits)))
}
